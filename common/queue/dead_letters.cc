#include "common/queue/dead_letters.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "common/base/crypto.h"
#include "common/queue/connection.h"
#include "common/queue/wakeup.h"

namespace audiogen::queue {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kOpenLimit{3}, kAnswerLimit{30};
// What is taken only to be put back in its order.
constexpr std::size_t kRestMax = 10'000;
constexpr std::chrono::seconds kRestWithin{5};

Error broke(const std::string& why) {
  return {"the broker went away: " + why};
}

// What is not kNone, and no word for those who publish; kLost when it takes too long.
Incoming await(Connection& connection, Clock::time_point limit) {
  Wakeup sleeper;
  for (;;) {
    Incoming in = connection.read();
    if (in.event != Event::kNone && in.event != Event::kBlocked && in.event != Event::kUnblocked) {
      return in;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now());
    if (left.count() <= 0) {
      return {.event = Event::kLost};
    }
    if (in.event == Event::kNone) {
      sleeper.wait(connection.fd(), false, std::min(left, connection.sleep_max()));
    }
  }
}

std::string lost(const Connection& connection) {
  return connection.lost_because().empty() ? "it does not answer" : connection.lost_because();
}

// Each look raises these, and makes no other message of it.
bool counts_looks(std::string_view header) {
  return header == "x-delivery-count" || header == "x-acquired-count";
}

std::string identify(const Incoming& message) {
  std::string all = std::to_string(message.bytes) + "\n" + message.body;
  for (const auto& [name, value] : message.headers) {
    if (!counts_looks(name)) {
      all += '\0' + name + '\0' + value;
    }
  }
  constexpr std::size_t kBytes = 8;
  const Sha256 hash = sha256(all);
  return to_hex(std::span(hash).first(kBytes));
}

}  // namespace

std::string_view DeadLetter::header(std::string_view name) const {
  const auto at = std::find_if(
      headers.begin(), headers.end(), [&](const auto& one) { return one.first == name; });
  return at == headers.end() ? std::string_view() : at->second;
}

std::string why_dead(const DeadLetter& letter) {
  const std::string_view reason = letter.header("x-death.0.reason");
  if (reason == "rejected") {
    return letter.bytes > kMessageBytesMax
               ? "longer than any message of ours (" + std::to_string(kMessageBytesMax) + " bytes)"
           : decode_hints(letter.body) ? "refused by somebody else: this version can read it"
                                       : "no list of hints as the service writes them";
  }
  if (reason == "delivery_limit") {
    return "delivered again and again, and never acknowledged";
  }
  if (reason == "maxlen") {
    return "its queue was full";
  }
  if (reason == "expired") {
    return "it waited longer than its queue allows";
  }
  return reason.empty() ? "somebody has put it here: it did not come from a queue of ours"
                        : std::string(reason);
}

// Seconds since 1970, as the broker writes them. Whoever may publish may write anything there, and
// what is past the year 9999 is no time that we could show, or hold in microseconds.
std::optional<Instant> died_at(const DeadLetter& letter) {
  constexpr std::int64_t kMost = 253'402'300'799;
  const std::string_view text = letter.header("x-death.0.time");
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return error == std::errc() && end == text.data() + text.size() && seconds >= 0 &&
                 seconds <= kMost
             ? std::optional(Instant(std::chrono::seconds(seconds)))
             : std::nullopt;
}

DeadLetters::DeadLetters(std::unique_ptr<Connection> connection, std::string queue)
    : connection_(std::move(connection)), queue_(std::move(queue)) {}
DeadLetters::DeadLetters(DeadLetters&&) noexcept = default;
DeadLetters& DeadLetters::operator=(DeadLetters&&) noexcept = default;
DeadLetters::~DeadLetters() = default;  // The broker puts back what it holds.

Result<DeadLetters> DeadLetters::open(const AmqpUrl& url, const Topology& topology) {
  auto connection = Connection::open(url, topology, {.declare = false, .limit = kOpenLimit});
  if (!connection) {
    return Error{"the broker did not answer (AMQP_URL): " + connection.error().reason};
  }
  return DeadLetters(*std::move(connection), topology.dead());
}

Result<std::optional<DeadLetter>> DeadLetters::next() {
  if (!connection_->get(queue_)) {
    return broke(lost(*connection_));
  }
  Incoming in = await(*connection_, Clock::now() + kAnswerLimit);
  if (in.event == Event::kNothing) {
    return std::optional<DeadLetter>();
  }
  if (in.event != Event::kGot) {
    return broke(lost(*connection_));
  }
  holds_ = true;
  DeadLetter out{.id = identify(in), .bytes = in.bytes, .tag = in.tag};
  out.body = std::move(in.body);
  out.headers = std::move(in.headers);
  return std::optional(std::move(out));
}

Result<Done> DeadLetters::drop(std::span<const std::uint64_t> tags) {
  for (const std::uint64_t tag : tags) {
    if (!connection_->ack(tag, false)) {
      return broke(lost(*connection_));
    }
    dropped_ = true;
  }
  return Done{};
}

Result<Done> DeadLetters::put_back() {
  // What comes back lies behind what came back before: so all of it does.
  const auto rest_until = Clock::now() + kRestWithin;
  for (std::size_t i = 0; holds_ && i < kRestMax && Clock::now() < rest_until; ++i) {
    const auto letter = next();
    if (!letter) {
      return letter.error();
    }
    if (!*letter) {
      break;
    }
  }
  if (holds_ && !connection_->put_back_all()) {
    return broke(lost(*connection_));
  }
  if (dropped_) {
    const auto settled = Clock::now() + kAcksSettle;
    while (Clock::now() < settled) {
      if (await(*connection_, settled).event != Event::kLost) {
        continue;
      }
      if (!connection_->lost_because().empty()) {
        return broke(lost(*connection_));
      }
    }
  }
  if (!connection_->send_close()) {
    return broke(lost(*connection_));
  }
  const auto limit = Clock::now() + kAnswerLimit;
  for (;;) {
    const Event event = await(*connection_, limit).event;
    if (event == Event::kClosed) {
      return Done{};
    }
    if (event == Event::kLost) {
      return broke(lost(*connection_));
    }
  }
}

}  // namespace audiogen::queue
