// What lies in the dead queue: looked at where it is, or dropped. For operators.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/config.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/queue/amqp.h"

namespace audiogen::queue {

class Connection;

struct DeadLetter {
  // Made of what it says and of how it died: two that are alike in everything have the same.
  std::string id{};
  std::string body{};       // The first kShownBytesMax bytes of it.
  std::uint64_t bytes = 0;  // All of it.
  Headers headers{};
  std::uint64_t tag = 0;  // For drop().

  // "" where there is none.
  std::string_view header(std::string_view name) const;
};

// One sentence: why it lies there.
std::string why_dead(const DeadLetter& letter);

// When, as the broker wrote it, or whoever put it there; nullopt: that is no time there can be.
std::optional<Instant> died_at(const DeadLetter& letter);

// Messages are held from next() on, hidden from whoever else looks, until put_back(), or the end of
// this. One thread only. Errors are one sentence for an operator.
class DeadLetters {
 public:
  // Blocks for 3 s at most, plus the look-up of the name.
  static Result<DeadLetters> open(const AmqpUrl& url, const Topology& topology = {});
  DeadLetters(DeadLetters&&) noexcept;
  DeadLetters& operator=(DeadLetters&&) noexcept;
  ~DeadLetters();

  // The oldest that it has not told yet; nullopt when there are no more. Blocks up to 30 s.
  Result<std::optional<DeadLetter>> next();
  // These of those that it has told, for good.
  Result<Done> drop(std::span<const std::uint64_t> tags);
  // All others, and with them the rest of the queue, 10,000 messages within 5 s at most: so far the
  // order is kept. Then it has ended. When this returns the broker has done it.
  Result<Done> put_back();

 private:
  DeadLetters(std::unique_ptr<Connection> connection, std::string queue);

  std::unique_ptr<Connection> connection_;
  std::string queue_;
  bool holds_ = false, dropped_ = false;
};

}  // namespace audiogen::queue
