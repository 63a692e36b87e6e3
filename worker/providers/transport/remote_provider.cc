#include "worker/providers/transport/remote_provider.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <unordered_set>
#include <utility>
#include <variant>

#include "common/base/mutex.h"
#include "worker/providers/transport/wire.h"

namespace audiogen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWithdrawTimeout = std::chrono::seconds(10);
// The timers of an exchange are set in whole milliseconds.
constexpr auto kTimerSlack = std::chrono::milliseconds(10);

}  // namespace

struct RemoteProvider::State {
  explicit State(http::Client& to) : client(to) {}

  http::Client& client;  // There as long as a call is open.
  Mutex mutex;
  ConditionVariable ended;
  std::unordered_set<std::shared_ptr<Call>> open GUARDED_BY(mutex);
};

// Everything but cancel() happens on the client's thread.
struct RemoteProvider::Call final : ProviderCall, std::enable_shared_from_this<Call> {
  Call(std::shared_ptr<State> of,
       std::unique_ptr<Dialogue> with,
       Clock::time_point until,
       ProviderRequest request,
       Done reply)
      : state(std::move(of)),
        dialogue(std::move(with)),
        deadline(until),
        task_deadline(request.deadline),
        span(request.span),
        resumed(!request.ticket.empty()),
        on_ticket(std::move(request.on_ticket)),
        is_ours(std::move(request.is_ours)),
        facts(request.facts ? std::move(request.facts) : std::make_shared<CallFacts>()),
        done(std::move(reply)) {}

  void cancel() override { end(true); }
  void leave() override { end(false); }
  bool is_unread() const override { return unread; }

  void end(bool withdraw) {
    const MutexLock lock(state->mutex);
    if (state->open.count(shared_from_this()) > 0) {
      post(std::chrono::milliseconds(0), [withdraw](Call& call) { call.end_now(withdraw); });
    }
  }

  // A job that is being handed over may be taken there, and paid, whatever we do. So its ticket is
  // waited for: without one nobody could go on with it, nor withdraw it.
  void end_now(bool withdraw) {
    withdraws = withdraws || withdraw;
    if (on_ticket && exchange) {
      if (!std::exchange(leaves, true)) {
        post(kLeaveLimit, [](Call& call) {
          if (call.on_ticket) {
            call.give_up({Fault::kCanceled, "canceled", std::nullopt}, call.withdraws);
          }
        });
      }
    } else {
      give_up({Fault::kCanceled, "canceled", std::nullopt}, withdraws || ticket_is_lost);
    }
  }

  // Runs `work` on the client's thread, unless the call has ended by then.
  void post(std::chrono::milliseconds delay, std::function<void(Call&)> work) {
    state->client.after(delay, [self = shared_from_this(), work = std::move(work)] {
      if (!self->finished) {
        work(*self);
      }
    });
  }

  std::chrono::milliseconds left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  }

  void begin() {
    take(dialogue->begin(std::max(std::chrono::seconds(1),
                                  std::chrono::duration_cast<std::chrono::seconds>(left()))));
  }

  void take(Step step) {
    if (on_ticket) {
      if (const std::string ticket = dialogue->ticket(); !ticket.empty()) {
        const auto keep = std::exchange(on_ticket, nullptr);
        ticket_is_lost = !withdraws && !keep(ticket) && !resumed;
        if (leaves) {
          return end_now(withdraws);
        }
      }
    }
    if (auto* const audio = std::get_if<Audio>(&step)) {
      finish(std::move(*audio));
    } else if (auto* const fault = std::get_if<ProviderFault>(&step)) {
      give_up_by_itself(std::move(*fault));  // What goes on there, out of our sight, is paid for.
    } else {
      auto& ask = std::get<Ask>(step);
      const auto delay = ask.delay;
      // Shared, because std::function must be copyable and bodies are big.
      auto request = std::make_shared<http::ClientRequest>(std::move(ask.request));
      if (delay.count() > 0) {
        post(std::min(delay, std::max(left(), std::chrono::milliseconds(0))),
             [request](Call& call) { call.send(std::move(*request)); });
      } else {
        send(std::move(*request));
      }
    }
  }

  void send(http::ClientRequest request) {
    const auto rest = left();
    if (rest.count() <= 0) {
      give_up_by_itself(
          {facts->sent ? Fault::kUnknownOutcome : Fault::kNotCalled, "out of time", std::nullopt});
      return;
    }
    const auto sent = Clock::now();
    if (!facts->sent) {
      facts->sent = sent;
    }
    request.total_timeout = std::min(request.total_timeout, rest);
    request.connect_timeout = std::min(request.connect_timeout, rest);
    wire::add_trace(request, span);
    request.on_unread = [self = shared_from_this()](bool waits) { self->wait_for_room(waits); };
    exchange =
        state->client.start(std::move(request), [self = shared_from_this(), sent](Heard answer) {
          if (!self->finished) {
            self->exchange.reset();
            const auto first_byte = answer ? answer->first_byte : std::chrono::milliseconds(0);
            self->heard(std::move(answer), sent + first_byte);
          }
        });
  }

  // Of ours, with an answer that is here. It is no time of the provider's, and none of our patience
  // with him: what he has made in time would be thrown away, and paid again elsewhere.
  void wait_for_room(bool waits) {
    if (waits) {
      unread_since = Clock::now();
    } else if (unread_since) {
      const auto waited = Clock::now() - *unread_since;
      unread_since.reset();
      facts->unread += waited;
      deadline = std::max(deadline, std::min(deadline + waited, task_deadline));
    }
    unread = waits;
  }

  void heard(Heard answer, Clock::time_point first_byte) {
    wait_for_room(false);
    Step step = dialogue->heard(std::move(answer));
    if (const auto* const audio = std::get_if<Audio>(&step)) {
      facts->first_byte = first_byte;
      facts->reported = audio->billed;
    } else if (const auto* const fault = std::get_if<ProviderFault>(&step)) {
      facts->reported = fault->billed;
    }
    take(std::move(step));
  }

  // As nobody has asked for. Whoever has the task by now may go on with what has a ticket.
  void give_up_by_itself(ProviderFault fault) {
    const bool is_anothers = is_ours && !is_ours();
    give_up(std::move(fault), !is_anothers || on_ticket || ticket_is_lost);
  }

  void give_up(ProviderFault fault, bool withdraw) {
    if (exchange) {
      exchange->cancel();
    }
    facts->goes_on = !withdraw && !dialogue->ticket().empty();
    if (auto request = withdraw ? dialogue->withdraw() : std::nullopt) {
      request->total_timeout = kWithdrawTimeout;
      wire::add_trace(*request, span);
      state->client.start(std::move(*request), [](const Heard&) {});
    }
    finish(std::move(fault));
  }

  void finish(Result<Audio, ProviderFault> result) {
    finished = true;
    exchange.reset();
    if (!result && deadline == task_deadline && left() <= kTimerSlack &&
        (result.error().fault == Fault::kUnknownOutcome ||
         result.error().fault == Fault::kTryNext)) {
      ProviderFault late = result.error();
      late.fault = Fault::kOutOfTime;
      late.retry_after.reset();
      result = std::move(late);
    }
    const Done reply = std::move(done);
    reply(std::move(result));
    // A timer may keep this call for a while; it must not keep its job, and with it the chain.
    is_ours = nullptr;
    on_ticket = nullptr;
    // Only now: the destructor waits for this.
    const MutexLock lock(state->mutex);
    state->open.erase(shared_from_this());
    state->ended.notify_all();
  }

  const std::shared_ptr<State> state;
  const std::unique_ptr<Dialogue> dialogue;
  Clock::time_point deadline;             // When our patience with the provider ends, …
  const Clock::time_point task_deadline;  // … or, if that is sooner, this.
  const std::optional<TraceSpan> span;
  const bool resumed;  // By a ticket that others may have, too.
  std::function<bool(const std::string&)> on_ticket;
  std::function<bool()> is_ours;
  const std::shared_ptr<CallFacts> facts;
  Done done;
  std::shared_ptr<http::ClientCall> exchange;
  bool leaves = false;          // As soon as there is a ticket.
  bool withdraws = false;       // Nobody is to go on with it.
  bool ticket_is_lost = false;  // Nobody can go on with it, so it is not to be paid, either.
  bool finished = false;
  std::optional<Clock::time_point> unread_since;  // Its answer waits for room of ours.
  std::atomic<bool> unread = false;               // The same, for other threads.
};

RemoteProvider::RemoteProvider(RemoteOptions options, http::Client& client)
    : options_(std::move(options)), state_(std::make_shared<State>(client)) {}

RemoteProvider::~RemoteProvider() {
  std::vector<std::shared_ptr<Call>> open;
  {
    const MutexLock lock(state_->mutex);
    open.assign(state_->open.begin(), state_->open.end());
  }
  for (const auto& call : open) {
    call->cancel();
  }
  MutexLock lock(state_->mutex);
  state_->ended.wait(lock, [this]() LOCKS_REQUIRED(state_->mutex) { return state_->open.empty(); });
}

std::shared_ptr<ProviderCall> RemoteProvider::start(ProviderRequest request, Done done) {
  const auto patience = Clock::now() + options_.timeout;
  auto dialogue = options_.open(request);
  const auto until = std::min(request.deadline, patience);
  auto call = std::make_shared<Call>(
      state_, std::move(dialogue), until, std::move(request), std::move(done));
  {
    const MutexLock lock(state_->mutex);
    state_->open.insert(call);
  }
  call->post(std::chrono::milliseconds(0), [](Call& started) { started.begin(); });
  return call;
}

}  // namespace audiogen
