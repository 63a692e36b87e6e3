// The message on the queue, and the one-shot look at the queues' lengths.
#include "common/queue/amqp.h"

#include <limits>

#include <rapidjson/document.h>

#include "common/queue/connection.h"

namespace audiogen::queue {

std::string encode_hint(const Hint& hint) {
  return R"({"task":")" + hint.task.text() + R"(","epoch":)" + std::to_string(hint.epoch) + "}";
}

std::optional<Hint> decode_hint(std::string_view body) {
  // RapidJSON takes a NUL for the end of the text, whatever follows.
  if (body.size() > kHintBytesMax || body.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(body.data(), body.size());
  if (document.HasParseError() || !document.IsObject()) {
    return std::nullopt;
  }
  const auto task = document.FindMember("task");
  const auto epoch = document.FindMember("epoch");
  if (task == document.MemberEnd() || !task->value.IsString() || epoch == document.MemberEnd() ||
      !epoch->value.IsUint()) {
    return std::nullopt;
  }
  const auto id = TaskId::parse({task->value.GetString(), task->value.GetStringLength()});
  return id ? std::optional(Hint{*id, epoch->value.GetUint()}) : std::nullopt;
}

std::optional<Depth> read_depth(const AmqpUrl& url, const Topology& topology) {
  constexpr std::chrono::seconds kLimit{3};
  const auto connection = Connection::open(url, topology, {.declare = false, .limit = kLimit});
  if (!connection) {
    return std::nullopt;
  }
  const auto ready = (*connection)->message_count(topology.jobs());
  if (!ready) {
    return std::nullopt;
  }
  const auto dead = (*connection)->message_count(topology.dead());
  return dead ? std::optional(Depth{*ready, *dead}) : std::nullopt;
}

}  // namespace audiogen::queue
