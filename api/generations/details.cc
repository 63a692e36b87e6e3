#include "api/generations/details.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "api/account/ledger_entry.h"
#include "api/generations/resource.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/domain/request.h"

namespace audiogen::api {
namespace {

// Without an exponent, which not everybody who keeps decimals as text reads.
void write_number(JsonWriter& json, std::string_view name, double value) {
  using Limits = std::numeric_limits<double>;
  // The longest has a sign, "0." and as many decimals as the least doubles.
  std::array<char, 3 + Limits::max_digits10 - Limits::min_exponent10> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed)
          .ptr;
  json.key(name).raw({digits.data(), end});
}

void write_reference(JsonWriter& json, std::string_view param, std::string_view kind) {
  json.begin_object().member("param", param).member("kind", kind).end_object();
}

// Without the addresses: they often let in whoever has them, and any key of the account reads this.
void write_request(JsonWriter& json, const GenerationRequest& request) {
  json.begin_object().member("prompt", std::string_view(request.prompt)).key("voice");
  if (request.voice) {
    json.value(std::string_view(*request.voice));
  } else {
    json.null();
  }
  json.member("output_format", format_name(request.output_format))
      .member("sample_rate", request.sample_rate);
  write_number(json, "speed", request.speed);
  write_number(json, "volume", request.volume);
  write_number(json, "pitch", request.pitch);
  write_credits(json, "max_credits", request.max_credits);
  std::string metadata;
  append_metadata(metadata, request.metadata);
  json.key("metadata").raw(metadata).key("references").begin_array();
  for (std::size_t i = 0; i < request.audio_references.size(); ++i) {
    write_reference(json, "audio_references[" + std::to_string(i) + "]", "audio");
  }
  if (request.image_url) {
    write_reference(json, "image_url", "image");
  }
  json.end_array().end_object();
}

struct EndWords {
  std::string_view name, message;
};

std::string_view words_of(CallFailure why) {
  switch (why) {
    case CallFailure::kBusy:
      return "Whoever was asked had no room for it.";
    case CallFailure::kRefused:
      return "Whoever was asked did not take it.";
    case CallFailure::kTrouble:
      return "Something went wrong where it was being made.";
    case CallFailure::kUnusable:
      return "What was made is no audio that could be delivered.";
    case CallFailure::kOther:
      break;
  }
  return "The audio could not be made in this attempt.";
}

EndWords words_of(const store::CallEntry& call) {
  using End = store::CallEntry::End;
  switch (call.end) {
    case End::kNone:
      return {"running", "The audio is being made."};
    case End::kSucceeded:
      return {"succeeded", "The audio was made."};
    case End::kFailed:
      return {"failed", words_of(call.why)};
    case End::kInterrupted:
      return {"interrupted",
              "The attempt was broken off, or no answer came in time; it costs nothing."};
    case End::kNotBegun:
      break;
  }
  return {"not_begun", "The attempt ended before any audio was asked for."};
}

void write_point(JsonWriter& json, std::string_view type, Instant at) {
  json.begin_object().member("type", type).member("at", at);
}

// When a final task came to its end: when it was settled. Retention used to write the time of the
// file's deletion to updated_at, and such rows are still there.
Instant end_of(const store::TaskDetails& details) {
  const auto& ledger = details.ledger;
  const auto settlement = std::find_if(ledger.begin(), ledger.end(), [](const auto& row) {
    return row.entry.kind == EntryKind::kResolve;
  });
  return settlement == ledger.end() ? details.view.updated_at : settlement->created_at;
}

void write_timeline(JsonWriter& json, const store::TaskDetails& details) {
  const TaskView& task = details.view;
  json.begin_array();
  write_point(json, "created", task.created_at);
  json.end_object();
  for (const store::CallEntry& call : details.timeline) {
    const EndWords words = words_of(call);
    write_point(json, "attempt", call.started_at);
    json.member("number", call.n)
        .member("ended_at", call.ended_at)
        .member("outcome", words.name)
        .member("message", words.message)
        .end_object();
  }
  if (is_final(task.state)) {
    write_point(json, state_name(task.state), end_of(details));
    if (task.state == TaskState::kFailed) {
      const TaskFailure failure = failure_of(task);
      json.member("code", failure.code).member("message", failure.message);
    }
    json.end_object();
  }
  if (details.deleted_at) {
    write_point(json, "deleted", *details.deleted_at);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

std::string render_details(const store::TaskDetails& details, const Prospect& prospect) {
  const TaskView& task = details.view;
  std::string out;
  out.reserve(2'048);
  JsonWriter json(out);
  json.begin_object()
      .member("object", "audio.generation.details")
      .member("id", task.id)
      .member("status", public_status(task.state, task.claims))
      .member("created_at", task.created_at)
      .member("updated_at", task.updated_at)
      .key("request");
  const auto request = decode_request(details.request);
  if (request) {
    write_request(json, *request);
  } else {
    json.null();
    if (!details.request.empty()) {
      log::error("a stored request cannot be read", {{"task_id", task.id}});
    }
  }
  json.member("key_id", details.key);
  write_prospect(json, prospect);
  // Of what is final, nothing is to come any more.
  json.member("settled_by",
              is_final(task.state) ? std::nullopt : std::optional(details.deadline_at))
      .member("attempts", details.calls)
      .key("timeline");
  write_timeline(json, details);
  json.key("ledger").begin_array();
  for (const store::LedgerEntry& row : details.ledger) {
    write_entry(json, row);
  }
  json.end_array().end_object();
  return out;
}

}  // namespace audiogen::api
