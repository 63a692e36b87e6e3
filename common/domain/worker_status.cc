#include "common/domain/worker_status.h"

#include <algorithm>
#include <cmath>

#include <rapidjson/document.h>

#include "common/base/json.h"

namespace audiogen {
namespace {

// From a millisecond to an hour.
constexpr double kRangeRatio = 1.1;
constexpr int kRanges = 160;

std::int64_t second_of(MinuteWatch::Time at) {
  return std::chrono::floor<std::chrono::seconds>(at.time_since_epoch()).count();
}

const rapidjson::Value* member(const rapidjson::Value& of, const char* name) {
  const auto found = of.FindMember(name);
  return found == of.MemberEnd() ? nullptr : &found->value;
}

std::optional<std::uint64_t> number(const rapidjson::Value& of, const char* name) {
  const auto* const value = member(of, name);
  return value != nullptr && value->IsUint64() ? std::optional(value->GetUint64()) : std::nullopt;
}

std::optional<std::string> text(const rapidjson::Value& of, const char* name) {
  const auto* const value = member(of, name);
  return value != nullptr && value->IsString()
             ? std::optional(std::string(value->GetString(), value->GetStringLength()))
             : std::nullopt;
}

std::optional<ProviderStatus> read_provider(const rapidjson::Value& of) {
  if (!of.IsObject()) {
    return std::nullopt;
  }
  auto name = text(of, "name"), state = text(of, "state");
  const auto in_flight = number(of, "in_flight");
  if (!name || !state || !in_flight) {
    return std::nullopt;
  }
  return ProviderStatus{.name = *std::move(name),
                        .state = *std::move(state),
                        .in_flight = *in_flight,
                        .waiting = number(of, "waiting").value_or(0),
                        .limit = number(of, "limit")};
}

std::optional<MinuteEnded> read_minute(const rapidjson::Value& of) {
  const auto succeeded = number(of, "succeeded");
  const auto* const failed = member(of, "failed");
  const auto* const times = member(of, "times");
  if (!succeeded || failed == nullptr || !failed->IsObject() || times == nullptr ||
      !times->IsArray()) {
    return std::nullopt;
  }
  MinuteEnded out{.succeeded = *succeeded};
  for (const auto& code : failed->GetObject()) {
    if (!code.value.IsUint64()) {
      return std::nullopt;
    }
    out.failed[code.name.GetString()] += code.value.GetUint64();
  }
  for (const auto& range : times->GetArray()) {
    if (!range.IsArray() || range.Size() != 2 || !range[0].IsInt() || !range[1].IsUint64() ||
        !out.times.add_to(range[0].GetInt(), range[1].GetUint64())) {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

int ServiceTimes::range_of(std::chrono::milliseconds time) {
  const double ms = std::max(static_cast<double>(time.count()), 1.0);
  return std::min(static_cast<int>(std::log(ms) / std::log(kRangeRatio)), kRanges - 1);
}

bool ServiceTimes::add_to(int range, std::uint64_t count) {
  if (range < 0 || range >= kRanges) {
    return false;
  }
  counts_[range] += count;
  return true;
}

void ServiceTimes::add(const ServiceTimes& others) {
  for (const auto& [range, count] : others.counts_) {
    counts_[range] += count;
  }
}

std::optional<double> ServiceTimes::median_seconds() const {
  std::uint64_t all = 0;
  for (const auto& [range, count] : counts_) {
    all += count;
  }
  std::uint64_t seen = 0;
  for (const auto& [range, count] : counts_) {
    seen += count;
    if (seen > 0 && seen >= all - all / 2) {
      constexpr double kMillisecond = 0.001;
      return std::pow(kRangeRatio, range + 0.5) * kMillisecond;
    }
  }
  return std::nullopt;
}

std::uint64_t MinuteEnded::failures() const {
  std::uint64_t out = 0;
  for (const auto& [code, count] : failed) {
    out += count;
  }
  return out;
}

void MinuteEnded::add(const MinuteEnded& others) {
  succeeded += others.succeeded;
  for (const auto& [code, count] : others.failed) {
    failed[code] += count;
  }
  times.add(others.times);
}

void MinuteWatch::ended(std::optional<FailureCode> failure,
                        std::optional<std::chrono::milliseconds> took,
                        Time now) {
  const std::int64_t number = second_of(now);
  Second& second = seconds_[static_cast<std::size_t>(number) % seconds_.size()];
  if (second.number != number) {
    second = {.number = number};
  }
  if (failure) {
    ++second.ended.failed[std::string(failure_code_name(*failure))];
  } else {
    ++second.ended.succeeded;
  }
  if (took) {
    second.ended.times.add(*took);
  }
}

MinuteEnded MinuteWatch::last(Time now) const {
  const std::int64_t number = second_of(now);
  MinuteEnded out;
  for (const Second& second : seconds_) {
    if (second.number > number - static_cast<std::int64_t>(seconds_.size()) &&
        second.number <= number) {
      out.add(second.ended);
    }
  }
  return out;
}

std::string encode_worker_status(const WorkerStatus& status) {
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  if (!status.version.empty()) {
    json.member("version", status.version);
  }
  if (status.draining) {
    json.member("draining", *status.draining);
  }
  if (status.broker_away) {
    json.member("broker_away_seconds", status.broker_away->count());
  }
  if (status.providers) {
    json.key("providers").begin_array();
    for (const ProviderStatus& provider : *status.providers) {
      json.begin_object()
          .member("name", provider.name)
          .member("state", provider.state)
          .member("in_flight", provider.in_flight)
          .member("waiting", provider.waiting)
          .member("limit", provider.limit)
          .end_object();
    }
    json.end_array();
  }
  if (status.minute) {
    json.key("minute").begin_object().member("succeeded", status.minute->succeeded);
    json.key("failed").begin_object();
    for (const auto& [code, count] : status.minute->failed) {
      json.member(code, count);
    }
    json.end_object().key("times").begin_array();
    for (const auto& [range, count] : status.minute->times.counts()) {
      json.begin_array().value(range).value(count).end_array();
    }
    json.end_array().end_object();
  }
  json.end_object();
  return out;
}

WorkerStatus parse_worker_status(std::string_view json) {
  rapidjson::Document document;
  document.Parse(json.data(), json.size());
  WorkerStatus out;
  if (document.HasParseError() || !document.IsObject()) {
    return out;
  }
  out.version = text(document, "version").value_or("");
  if (const auto* const draining = member(document, "draining"); draining && draining->IsBool()) {
    out.draining = draining->GetBool();
  }
  if (const auto away = number(document, "broker_away_seconds")) {
    out.broker_away = std::chrono::seconds(static_cast<std::int64_t>(
        std::min<std::uint64_t>(*away, std::chrono::seconds(std::chrono::years(100)).count())));
  }
  if (const auto* const providers = member(document, "providers");
      providers != nullptr && providers->IsArray()) {
    out.providers.emplace();
    for (const auto& provider : providers->GetArray()) {
      if (auto read = read_provider(provider)) {
        out.providers->push_back(*std::move(read));
      }
    }
  }
  if (const auto* const minute = member(document, "minute"); minute && minute->IsObject()) {
    out.minute = read_minute(*minute);
  }
  return out;
}

}  // namespace audiogen
