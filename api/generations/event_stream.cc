#include "api/generations/event_stream.h"

#include <charconv>

#include "common/base/json.h"

namespace audiogen::api {

std::uint64_t event_id(const TaskView& task) {
  return std::uint64_t{task.epoch} + (is_final(task.state) ? 1 : 0);
}

std::optional<std::uint64_t> parse_event_id(std::string_view header) {
  std::uint64_t out = 0;
  const char* const last = header.data() + header.size();
  const auto [end, error] = std::from_chars(header.data(), last, out);
  return error == std::errc() && end == last ? std::optional(out) : std::nullopt;
}

// The JSON is one line: line breaks in its texts are escaped.
std::string status_event(const TaskView& task, const WireNames& names) {
  std::string out = "id: " + std::to_string(event_id(task)) + "\nevent: status\ndata: ";
  out += render_task(task, names, Members::kAll);
  out += "\n\n";
  return out;
}

std::string progress_event(const Prospect& prospect) {
  std::string out = "event: progress\ndata: ";
  JsonWriter json(out);
  json.begin_object();
  write_prospect(json, prospect);
  json.end_object();
  out += "\n\n";
  return out;
}

std::string EventFeed::say(const TaskView& task,
                           const WireNames& names,
                           const ProspectOf& prospect_of,
                           Time now) {
  std::string text(begun_ ? "" : kStreamBegin);
  begun_ = true;
  if (event_id(task) != seen_) {
    seen_ = event_id(task);
    text += status_event(task, names);
    progress_at_ = now;
  }
  if (!is_final(task.state) && now >= progress_at_) {
    progress_at_ = now + kProgressEvery;
    if (const Prospect prospect = prospect_of(task); prospect != told_) {
      told_ = prospect;
      text += progress_event(prospect);
    }
  }
  if (text.empty() && now - spoke_ >= kCommentEvery) {
    text = kStreamComment;
  }
  if (!text.empty()) {
    spoke_ = now;
  }
  return text;
}

}  // namespace audiogen::api
