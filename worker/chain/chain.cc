#include "worker/chain/chain.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/utf8.h"

namespace audiogen::worker {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Trying the same provider again is for short hiccups; longer ones are for the next provider or for
// later.
constexpr int kTriesMax = 3;
constexpr milliseconds kFirstWait{250};
constexpr milliseconds kWaitMax{20'000};
// Time that must remain for the call itself after a wait.
constexpr milliseconds kCallReserve{10'000};

bool can_serve(const Capabilities& able, const GenerationRequest& request) {
  return (request.prompt.size() <= able.prompt_max ||
          utf8_length(request.prompt) <= able.prompt_max) &&
         (request.audio_references.empty() || able.audio_references) &&
         (!request.image_url || able.image) &&
         (!request.voice || able.voices.empty() ||
          std::find(able.voices.begin(), able.voices.end(), *request.voice) != able.voices.end());
}

milliseconds wait_before_same(const ProviderFault& fault, const Standing& standing) {
  const double base = static_cast<double>((kFirstWait * (1 << (standing.tries - 1))).count());
  auto wait = milliseconds(static_cast<std::int64_t>(base * (1 + 0.5 * standing.jitter)));
  if (fault.retry_after) {
    wait = std::max<milliseconds>(wait, *fault.retry_after);
  }
  return wait;
}

// Nobody is asked any more in this claim.
Decision stop(Trouble trouble) {
  const Verdict verdict = verdict_on(trouble);
  const NextStep step = verdict.kind == ClaimEnd::Kind::kFail    ? NextStep::kFail
                        : verdict.kind == ClaimEnd::Kind::kRetry ? NextStep::kRetryLater
                                                                 : NextStep::kGiveBack;
  return {.step = step, .failure = verdict.failure, .trouble = trouble};
}

Decision ask(NextStep step, milliseconds wait = milliseconds(0)) {
  return {.step = step,
          .failure = verdict_on(Trouble::kNobodyNow).failure,
          .wait = wait,
          .trouble = Trouble::kNobodyNow};
}

Decision elsewhere(bool another) {
  return another ? ask(NextStep::kNextProvider) : stop(Trouble::kNobodyNow);
}

}  // namespace

Decision after_fault(const ProviderFault& fault, const Standing& standing) {
  switch (fault.fault) {
    case Fault::kRejected:
      return stop(Trouble::kContentRefused);
    case Fault::kCanceled:
      return stop(Trouble::kStopping);
    case Fault::kUnsupportedInput:
      // One that cannot says nothing of one that could have, had it worked just now.
      if (!standing.another && !standing.later) {
        return stop(Trouble::kNobodyCan);
      }
      return elsewhere(standing.another);
    case Fault::kRetrySame: {
      const milliseconds wait = wait_before_same(fault, standing);
      if (standing.tries < kTriesMax && wait <= kWaitMax &&
          wait + kCallReserve < standing.time_left) {
        return ask(NextStep::kSameProvider, wait);
      }
      return elsewhere(standing.another);
    }
    case Fault::kTryNext:
    case Fault::kBrokenByInput:
    case Fault::kUnknownOutcome:
      break;
  }
  return elsewhere(standing.another);
}

Chain::Chain(std::vector<std::unique_ptr<AudioProvider>> providers) {
  for (std::unique_ptr<AudioProvider>& provider : providers) {
    links_.push_back(std::make_unique<Link>(std::move(provider)));
  }
}

std::optional<std::size_t> Chain::choose(const GenerationRequest& request, std::size_t from) const {
  for (std::size_t i = from; i < links_.size(); ++i) {
    if (!can_serve(links_[i]->provider.capabilities(), request)) {
      continue;
    }
    const std::scoped_lock lock(links_[i]->mutex);
    if (links_[i]->breaker.state(Clock::now()) != Breaker::State::kOpen) {
      return i;
    }
  }
  return std::nullopt;
}

bool Chain::serves(const GenerationRequest& request, std::span<const std::size_t> except) const {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (std::find(except.begin(), except.end(), i) == except.end() &&
        can_serve(links_[i]->provider.capabilities(), request)) {
      return true;
    }
  }
  return false;
}

bool Chain::sends_reference_bytes() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    return link->provider.capabilities().reference_bytes;
  });
}

std::optional<std::size_t> Chain::find(const std::string& name) const {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i]->provider.name() == name) {
      return i;
    }
  }
  return std::nullopt;
}

bool Chain::admit(std::size_t position) const {
  Link& link = *links_[position];
  const std::scoped_lock lock(link.mutex);
  return link.breaker.allow(Clock::now());
}

void Chain::failed(std::size_t position, Fault fault) const {
  if (fault == Fault::kBrokenByInput) {
    // A text that kills it is no sign that it works: as a success it would close a breaker that
    // others' failures have opened.
    Link& link = *links_[position];
    const std::scoped_lock lock(link.mutex);
    link.breaker.said_nothing(Clock::now());
  } else if (fault != Fault::kCanceled) {
    answered(position);
    proved(position, fault);
  }
}

void Chain::answered(std::size_t position) const {
  Link& link = *links_[position];
  const std::scoped_lock lock(link.mutex);
  link.breaker.answered(Clock::now());
}

void Chain::proved(std::size_t position, std::optional<Fault> fault) const {
  // What says something of the task, or of us, says nothing against the provider.
  const bool its_failure =
      fault && *fault != Fault::kRejected && *fault != Fault::kUnsupportedInput;
  Link& link = *links_[position];
  const std::scoped_lock lock(link.mutex);
  link.breaker.proved(!its_failure, Clock::now());
}

std::string Chain::status_json() const {
  std::string out = "[";
  for (const auto& link : links_) {
    out += out.size() > 1 ? ",{\"name\":\"" : "{\"name\":\"";
    for (const char c : link->provider.name()) {
      out += c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 ? '_' : c;
    }
    Breaker::State state{};
    {
      const std::scoped_lock lock(link->mutex);
      state = link->breaker.state(Clock::now());
    }
    out += "\",\"state\":\"";
    out += state == Breaker::State::kClosed ? "ready" : breaker_state_name(state);
    out += "\",\"in_flight\":" + std::to_string(link->provider.running()) +
           ",\"waiting\":" + std::to_string(link->provider.waiting()) + "}";
  }
  return out + "]";
}

std::shared_ptr<const Chain> CurrentChain::get() const {
  const std::scoped_lock lock(mutex_);
  return chain_;
}

void CurrentChain::replace(std::shared_ptr<const Chain> chain) {
  const std::scoped_lock lock(mutex_);
  replaced_.push_back(std::exchange(chain_, std::move(chain)));
}

void CurrentChain::collect() {
  std::vector<std::shared_ptr<const Chain>> unused;
  {
    const std::scoped_lock lock(mutex_);
    const auto first = std::partition(replaced_.begin(), replaced_.end(), [](const auto& chain) {
      return chain.use_count() > 1;
    });
    std::move(first, replaced_.end(), std::back_inserter(unused));
    replaced_.erase(first, replaced_.end());
  }
}

}  // namespace audiogen::worker
