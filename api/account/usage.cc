#include "api/account/usage.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "api/server/query.h"
#include "common/base/csv.h"
#include "common/base/json.h"
#include "common/domain/usage.h"

namespace audiogen::api {
namespace {

struct Asked {
  UsageSpan span;
  UsageGroup group = UsageGroup::kNone;
};

// One of `names`, by its place; the first when the parameter is not there.
template <std::size_t N>
Result<std::size_t, ApiError> choice(const Query& query,
                                     std::string_view name,
                                     const std::array<std::string_view, N>& names) {
  const auto given = query.text(name);
  if (!given) {
    return std::size_t{0};
  }
  std::string all;
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == *given) {
      return i;
    }
    all += std::string(i == 0 ? "" : i + 1 == N ? " or " : ", ") + std::string(names[i]);
  }
  return invalid_parameter(std::string(name), std::string(name) + " must be " + all + ".");
}

Result<Instant, ApiError> time_in(const Query& query, std::string_view name) {
  const auto at = query.time(name);
  if (!at) {
    return at.error();
  }
  if (!*at) {
    return invalid_parameter(std::string(name), std::string(name) + " is required.");
  }
  return **at;
}

Result<Asked, ApiError> parse(std::string_view text) {
  const auto query = Query::parse(text, {"from", "to", "bucket", "group_by"});
  if (!query) {
    return query.error();
  }
  const auto from = time_in(*query, "from");
  if (!from) {
    return from.error();
  }
  const auto to = time_in(*query, "to");
  if (!to) {
    return to.error();
  }
  const auto bucket = choice<2>(*query, "bucket", {"day", "hour"});
  if (!bucket) {
    return bucket.error();
  }
  constexpr std::array kGroups = {UsageGroup::kNone, UsageGroup::kKey, UsageGroup::kVoice};
  const auto group = choice<3>(*query, "group_by", {"none", "key", "voice"});
  if (!group) {
    return group.error();
  }
  const auto span = usage_span(*from, *to, *bucket == 0 ? UsageBucket::kDay : UsageBucket::kHour);
  if (!span) {
    return span.error();
  }
  return Asked{.span = *span, .group = kGroups.at(*group)};
}

void write_counts(JsonWriter& json, const UsageCounts& counts) {
  json.member("generations", counts.generations)
      .member("succeeded", counts.succeeded)
      .member("failed", counts.failed)
      .member("canceled", counts.canceled);
  json.key("audio_seconds").raw(format_seconds(counts.audio_ms));
  json.key("credits").raw(format_credits(counts.charged));
}

std::string render_json(const store::UsageReport& report, const Asked& asked) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("data").begin_array();
  for (const store::UsageRow& row : report.rows) {
    json.begin_object()
        .member("start", row.start)
        .member("end", row.start + length_of(asked.span.bucket));
    if (asked.group == UsageGroup::kKey) {
      json.member("key_id", row.key);
    } else if (asked.group == UsageGroup::kVoice) {
      json.key("voice");
      if (row.voice) {
        json.value(std::string_view(*row.voice));
      } else {
        json.null();
      }
    }
    write_counts(json, row.counts);
    json.end_object();
  }
  json.end_array().key("totals").begin_object();
  write_counts(json, report.totals);
  json.end_object().member("complete_to", report.complete_to).end_object();
  return out;
}

// A line of names, then one for each row; nothing stands for null.
std::string render_csv(const store::UsageReport& report, const Asked& asked) {
  std::vector<std::string> fields{"start", "end"};
  if (asked.group != UsageGroup::kNone) {
    fields.emplace_back(asked.group == UsageGroup::kKey ? "key_id" : "voice");
  }
  for (const char* const name :
       {"generations", "succeeded", "failed", "canceled", "audio_seconds", "credits"}) {
    fields.emplace_back(name);
  }
  std::string out;
  append_csv_line(out, fields);
  for (const store::UsageRow& row : report.rows) {
    fields = {format_iso(row.start), format_iso(row.start + length_of(asked.span.bucket))};
    if (asked.group == UsageGroup::kKey) {
      fields.push_back(row.key ? row.key->text() : "");
    } else if (asked.group == UsageGroup::kVoice) {
      fields.push_back(row.voice.value_or(""));
    }
    for (const std::uint64_t count :
         {row.counts.generations, row.counts.succeeded, row.counts.failed, row.counts.canceled}) {
      fields.push_back(std::to_string(count));
    }
    fields.push_back(format_seconds(row.counts.audio_ms));
    fields.push_back(format_credits(row.counts.charged));
    append_csv_line(out, fields);
  }
  return out;
}

}  // namespace

Handling Usage::read(Call call) {
  const auto asked = parse(call.request().query);
  if (!asked) {
    call.fail(asked.error());
    co_return;
  }
  const auto look = [&](StoreDoors& doors) {
    return doors.usage.read(call.key().user, asked->span, asked->group);
  };
  const auto report = co_await on_store(pool_, call.holder(), look);
  if (!report || !*report) {
    call.fail(service_unavailable());
    co_return;
  }
  if (prefers_csv(call.request().joined_headers("accept"))) {
    call.answer_csv(render_csv(**report, *asked), "usage.csv");
  } else {
    call.answer(200, render_json(**report, *asked), "Vary: Accept\r\n");
  }
}

}  // namespace audiogen::api
