#include "api/generations/resource.h"

#include "common/base/log.h"

namespace audiogen::api {
namespace {

void append_output(std::string& out,
                   const TaskView& task,
                   const WireNames& names,
                   Members members) {
  out += "{\"url\":";
  std::string url = names.cdn_url + "/" + task.output_key;
  if (names.links) {
    url += names.links->query(
        task.output_key,
        std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
  }
  append_json_string(out, url);
  out += ",\"duration_seconds\":";
  out += format_seconds(task.duration_ms);
  out += ',';
  append_json_member(out, "format", format_name(task.output_format));
  const bool all = members == Members::kAll;
  if (all && task.output_deleted_at) {
    out += ',';
    append_json_member(out, "deleted_at", format_iso(*task.output_deleted_at));
  } else if (all && names.retention.count() > 0) {
    out += ',';
    append_json_member(out, "expires_at", format_iso(task.created_at + names.retention));
  }
  out += '}';
}

// {"p50":…,"p90":…}: seconds to the tenth, which is more than anybody can tell.
void write_spread(JsonWriter& json, std::string_view name, const std::optional<Spread>& spread) {
  json.key(name);
  if (!spread) {
    json.null();
    return;
  }
  const auto seconds = [](std::chrono::milliseconds time) {
    const auto tenths = (time.count() + 50) / 100;
    std::string out = std::to_string(tenths / 10);
    return tenths % 10 == 0 ? out : out + "." + std::to_string(tenths % 10);
  };
  json.begin_object();
  json.key("p50").raw(seconds(spread->p50));
  json.key("p90").raw(seconds(spread->p90));
  json.end_object();
}

void append_failure(std::string& out, const TaskView& task) {
  const TaskFailure failure = failure_of(task);
  out += '{';
  append_json_member(out, "code", failure.code);
  out += ',';
  append_json_member(out, "message", failure.message);
  out += failure.retriable ? ",\"retriable\":true}" : ",\"retriable\":false}";
}

}  // namespace

WireNames wire_names(const Config& config) {
  return {config.model_name(),
          config.cdn_url,
          LinkSigner::from(config),
          std::chrono::days(config.output_retention_days)};
}

TaskFailure failure_of(const TaskView& task) {
  const FailureCode code = task.failure.value_or(FailureCode::kInternalError);
  return {
      failure_code_name(code),
      task.failure_message.empty() ? failure_message(code) : std::string_view(task.failure_message),
      failure_retriable(code)};
}

std::string render_task(const TaskView& task, const WireNames& names, Members members) {
  const bool succeeded = task.state == TaskState::kSucceeded;
  std::string out;
  out.reserve(512);
  out += '{';
  append_json_member(out, "id", task.id.text());
  out += ",\"object\":\"audio.generation\",";
  append_json_member(out, "model", names.model);
  out += ',';
  append_json_member(out, "status", public_status(task.state, task.claims));
  out += ',';
  append_json_member(out, "created_at", format_iso(task.created_at));
  out += ',';
  append_json_member(out, "updated_at", format_iso(task.updated_at));
  out += ",\"output\":";
  if (succeeded) {
    append_output(out, task, names, members);
  } else {
    out += "null";
  }
  out += ",\"usage\":";
  if (succeeded) {
    out += "{\"credits\":" + format_credits(task.charged.value_or(Units{})) + "}";
  } else {
    out += "null";
  }
  out += ",\"billing\":{\"reserved_credits\":" + format_credits(task.held);
  if (task.charged) {
    out += ",\"charged_credits\":" + format_credits(*task.charged);
    out += ",\"returned_credits\":" + format_credits(task.held - *task.charged);
  }
  out += "},\"error\":";
  if (task.state == TaskState::kFailed) {
    append_failure(out, task);
  } else {
    out += "null";
  }
  out += '}';
  return out;
}

std::string render_listed(const TaskView& task,
                          std::string_view request,
                          std::optional<KeyId> key,
                          const WireNames& names) {
  std::string out = render_task(task, names, Members::kAll);
  out.back() = ',';
  const auto asked = decode_request(request);
  if (asked) {
    append_json_member(out, "prompt", asked->prompt);
    out += ",\"metadata\":";
    append_metadata(out, asked->metadata);
  } else {
    out += "\"prompt\":null,\"metadata\":null";
    if (!request.empty()) {
      log::error("a stored request cannot be read", {{"task_id", task.id}});
    }
  }
  out += ",\"key_id\":";
  if (key) {
    append_json_string(out, key->text());
  } else {
    out += "null";
  }
  out += '}';
  return out;
}

void write_prospect(JsonWriter& json, const Prospect& prospect) {
  json.key("waiting_on");
  if (prospect.waiting_on) {
    json.value(waiting_on_name(*prospect.waiting_on));
  } else {
    json.null();
  }
  json.member("position", prospect.position);
  write_spread(json, "start_in_seconds", prospect.start_in);
  write_spread(json, "done_in_seconds", prospect.done_in);
}

std::string render_estimate(const Estimate& estimate, const std::optional<Spread>& start_in) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("object", "audio.estimate");
  json.key("expected_credits").raw(format_credits(estimate.expected));
  json.key("min_credits").raw(format_credits(estimate.least));
  json.key("max_credits").raw(format_credits(estimate.most));
  json.key("seconds").begin_object();
  json.key("p10").raw(format_seconds(estimate.short_ms));
  json.key("p90").raw(format_seconds(estimate.long_ms));
  json.end_object();
  write_spread(json, "start_in_seconds", start_in);
  json.end_object();
  return out;
}

}  // namespace audiogen::api
