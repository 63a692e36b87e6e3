// What the load consists of: whole requests, as they go on the wire.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "tests/bench/load.h"

namespace audiogen::bench {

// `extra`: more header lines.
std::string create_request(std::string_view key, const std::string& extra = "");
std::string poll_request(std::string_view key, std::string_view task);

// The same few requests in turn.
class Rounds : public Aim {
 public:
  explicit Rounds(std::vector<std::string> requests) : requests_(std::move(requests)) {}
  Shot next(std::size_t) override { return {requests_[at_++ % requests_.size()]}; }
  void answered(std::size_t, int, std::string_view) override {}

 private:
  std::vector<std::string> requests_;
  std::size_t at_ = 0;
};

// A creation by each key in turn.
Rounds creates_of(std::span<const std::string> keys);
// A poll of each task in turn; the tasks belong to the keys in turn, as Stand::fill() makes them.
Rounds polls_of(std::span<const std::string> keys, std::span<const TaskId> tasks);

}  // namespace audiogen::bench
