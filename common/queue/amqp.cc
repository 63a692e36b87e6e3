// The message on the queue, and the one-shot look at the queues' lengths.
#include "common/queue/amqp.h"

#include <limits>

#include <rapidjson/document.h>

#include "common/queue/connection.h"

namespace audiogen::queue {
namespace {

std::optional<Hint> read_hint(const rapidjson::Value& value) {
  if (!value.IsObject()) {
    return std::nullopt;
  }
  const auto task = value.FindMember("task");
  const auto epoch = value.FindMember("epoch");
  if (task == value.MemberEnd() || !task->value.IsString() || epoch == value.MemberEnd() ||
      !epoch->value.IsUint()) {
    return std::nullopt;
  }
  const auto id = TaskId::parse({task->value.GetString(), task->value.GetStringLength()});
  return id ? std::optional(Hint{*id, epoch->value.GetUint()}) : std::nullopt;
}

}  // namespace

std::string encode_hints(std::span<const Hint> hints) {
  std::string out = R"({"hints":[)";
  for (const Hint& hint : hints) {
    out += out.back() == '[' ? "{" : ",{";
    out += R"("task":")" + hint.task.text() + R"(","epoch":)" + std::to_string(hint.epoch) + "}";
  }
  return out += "]}";
}

std::optional<std::vector<Hint>> decode_hints(std::string_view body) {
  // RapidJSON takes a NUL for the end of the text, whatever follows.
  if (body.size() > kMessageBytesMax || body.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(body.data(), body.size());
  if (document.HasParseError() || !document.IsObject()) {
    return std::nullopt;
  }
  const auto list = document.FindMember("hints");
  if (list == document.MemberEnd() || !list->value.IsArray() || list->value.Empty() ||
      list->value.Size() > kHintsMax) {
    return std::nullopt;
  }
  std::vector<Hint> out;
  out.reserve(list->value.Size());
  for (const rapidjson::Value& value : list->value.GetArray()) {
    const auto hint = read_hint(value);
    if (!hint) {
      return std::nullopt;
    }
    out.push_back(*hint);
  }
  return out;
}

std::optional<Depth> read_depth(const AmqpUrl& url, const Topology& topology) {
  constexpr std::chrono::seconds kLimit{3};
  const auto connection = Connection::open(url, topology, {.declare = false, .limit = kLimit});
  if (!connection) {
    return std::nullopt;
  }
  const auto count = [&](const std::string& queue) { return (*connection)->message_count(queue); };
  const auto jobs = count(topology.jobs());
  const auto express = jobs ? count(topology.express()) : std::nullopt;
  const auto dead = express ? count(topology.dead()) : std::nullopt;
  return dead ? std::optional(Depth{*jobs + *express, *dead}) : std::nullopt;
}

}  // namespace audiogen::queue
