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
  out += render_task(task, names);
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

}  // namespace audiogen::api
