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

// The longest that a worker says of a time.
constexpr std::chrono::seconds kLongest{std::chrono::years(100)};

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

std::optional<std::chrono::seconds> time(const rapidjson::Value& of, const char* name) {
  const auto value = number(of, name);
  return value ? std::optional(std::chrono::seconds(
                     static_cast<std::int64_t>(std::min<std::uint64_t>(*value, kLongest.count()))))
               : std::nullopt;
}

// An object of counts.
bool read_counts(const rapidjson::Value& of, std::map<std::string, std::uint64_t>& out) {
  for (const auto& one : of.GetObject()) {
    if (!one.value.IsUint64()) {
      return false;
    }
    out[one.name.GetString()] += one.value.GetUint64();
  }
  return true;
}

void write_counts(JsonWriter& json, const std::map<std::string, std::uint64_t>& counts) {
  json.begin_object();
  for (const auto& [name, count] : counts) {
    json.foreign_key(name).value(count);
  }
  json.end_object();
}

bool read_times(const rapidjson::Value& of, ServiceTimes& out) {
  for (const auto& range : of.GetArray()) {
    if (!range.IsArray() || range.Size() != 2 || !range[0].IsInt() || !range[1].IsUint64() ||
        !out.add_to(range[0].GetInt(), range[1].GetUint64())) {
      return false;
    }
  }
  return true;
}

void write_times(JsonWriter& json, const ServiceTimes& times) {
  json.begin_array();
  for (const auto& [range, count] : times.counts()) {
    json.begin_array().value(range).value(count).end_array();
  }
  json.end_array();
}

std::optional<ProviderCalls> read_calls(const rapidjson::Value& of) {
  if (!of.IsObject()) {
    return std::nullopt;
  }
  const auto answered = number(of, "answered"), fallback = number(of, "fallback"),
             undelivered = number(of, "undelivered");
  const auto* const errors = member(of, "errors");
  const auto* const times = member(of, "times");
  if (!answered || !fallback || !undelivered || errors == nullptr || !errors->IsObject() ||
      times == nullptr || !times->IsArray()) {
    return std::nullopt;
  }
  ProviderCalls out{.answered = *answered, .fallback = *fallback, .undelivered = *undelivered};
  return read_counts(*errors, out.errors) && read_times(*times, out.times)
             ? std::optional(std::move(out))
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
  const auto* const calls = member(of, "calls");
  return ProviderStatus{.name = *std::move(name),
                        .state = *std::move(state),
                        .in_flight = *in_flight,
                        .waiting = number(of, "waiting").value_or(0),
                        .limit = number(of, "limit"),
                        .waits_for_account = member(of, "waits_for_account") != nullptr,
                        .troubled = time(of, "troubled_seconds"),
                        .calls = calls == nullptr ? std::nullopt : read_calls(*calls)};
}

// What is told of a whole minute beside what is told of the last one.
bool read_rest(const rapidjson::Value& of, MinuteEnded& out) {
  const auto* const failed = member(of, "failed_at");
  const auto* const waits = member(of, "waits");
  const auto charged = number(of, "charged");
  if (failed == nullptr || !failed->IsArray() || waits == nullptr || !waits->IsArray() ||
      !charged || *charged > static_cast<std::uint64_t>(kBalanceMax.value)) {
    return false;
  }
  for (const auto& one : failed->GetArray()) {
    if (!one.IsArray() || one.Size() != 3 || !one[0].IsString() || !one[1].IsString() ||
        !one[2].IsUint64()) {
      return false;
    }
    out.failed_at[{one[0].GetString(), one[1].GetString()}] += one[2].GetUint64();
  }
  out.charged = Units{static_cast<std::int64_t>(*charged)};
  return read_times(*waits, out.waits);
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
  return read_counts(*failed, out.failed) && read_times(*times, out.times)
             ? std::optional(std::move(out))
             : std::nullopt;
}

std::optional<WholeMinutes> read_minutes(const rapidjson::Value& of) {
  WholeMinutes out;
  for (const auto& one : of.GetArray()) {
    const auto* const at = one.IsObject() ? member(one, "at") : nullptr;
    auto minute = at != nullptr && at->IsInt64() ? read_minute(one) : std::nullopt;
    if (!minute || !read_rest(one, *minute)) {
      return std::nullopt;
    }
    out[at->GetInt64()].add(*minute);
  }
  return out;
}

void write_minute(JsonWriter& json, const MinuteEnded& minute) {
  json.member("succeeded", minute.succeeded);
  write_counts(json.key("failed"), minute.failed);
  write_times(json.key("times"), minute.times);
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

std::optional<double> ServiceTimes::seconds_at(double share) const {
  std::uint64_t all = 0;
  for (const auto& [range, count] : counts_) {
    all += count;
  }
  const double so_many = share * static_cast<double>(all);
  std::uint64_t seen = 0;
  for (const auto& [range, count] : counts_) {
    seen += count;
    if (seen > 0 && static_cast<double>(seen) >= so_many) {
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

void MinuteEnded::add(const TaskEnd& end) {
  if (end.failure) {
    const std::string code(failure_code_name(*end.failure));
    ++failed[code];
    ++failed_at[{code, end.provider}];
  } else {
    ++succeeded;
  }
  if (end.took) {
    times.add(*end.took);
  }
  if (end.waited) {
    waits.add(*end.waited);
  }
  charged = charged + end.charged;
}

void MinuteEnded::add(const MinuteEnded& others) {
  succeeded += others.succeeded;
  for (const auto& [code, count] : others.failed) {
    failed[code] += count;
  }
  times.add(others.times);
  for (const auto& [where, count] : others.failed_at) {
    failed_at[where] += count;
  }
  waits.add(others.waits);
  charged = charged + others.charged;
}

std::int64_t minute_of(Instant at) {
  return std::chrono::floor<std::chrono::minutes>(at.time_since_epoch()).count();
}

void MinuteWatch::ended(const TaskEnd& end, Time now, Instant wall) {
  const std::int64_t number = second_of(now);
  Second& second = seconds_[static_cast<std::size_t>(number) % seconds_.size()];
  if (second.number != number) {
    second = {.number = number};
  }
  second.ended.add(end);
  const std::int64_t minute = minute_of(wall);
  whole_[minute].add(end);
  std::erase_if(whole_,
                [&](const auto& one) { return one.first + 1 < minute || one.first > minute; });
}

WholeMinutes MinuteWatch::whole(Instant wall) const {
  WholeMinutes out;
  for (const std::int64_t minute : {minute_of(wall) - 1, minute_of(wall)}) {
    const auto found = whole_.find(minute);
    out[minute] = found == whole_.end() ? MinuteEnded() : found->second;
  }
  return out;
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

std::uint64_t ProviderCalls::all() const {
  std::uint64_t out = answered;
  for (const auto& [error, count] : errors) {
    out += count;
  }
  return out;
}

void ProviderCalls::add(const ProviderCalls& others) {
  answered += others.answered;
  for (const auto& [error, count] : others.errors) {
    errors[error] += count;
  }
  fallback += others.fallback;
  undelivered += others.undelivered;
  times.add(others.times);
}

ProviderCalls& CallsWatch::at(Time now) {
  const std::int64_t number =
      std::chrono::floor<std::chrono::minutes>(now.time_since_epoch()).count();
  Minute& minute = minutes_[static_cast<std::size_t>(number) % minutes_.size()];
  if (minute.number != number) {
    minute = {.number = number};
  }
  return minute.calls;
}

void CallsWatch::ended(std::optional<std::string_view> error,
                       bool fallback,
                       std::chrono::milliseconds took,
                       Time now) {
  ProviderCalls& calls = at(now);
  calls.fallback += fallback ? 1 : 0;
  if (error) {
    ++calls.errors[std::string(*error)];
  } else {
    ++calls.answered;
    calls.times.add(took);
  }
}

void CallsWatch::undelivered(Time now) {
  ++at(now).undelivered;
}

ProviderCalls CallsWatch::last(Time now) const {
  const std::int64_t number =
      std::chrono::floor<std::chrono::minutes>(now.time_since_epoch()).count();
  ProviderCalls out;
  for (const Minute& minute : minutes_) {
    if (minute.number > number - kCallsOver.count() && minute.number <= number) {
      out.add(minute.calls);
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
  if (status.renewal_lag) {
    json.member("renewal_lag_ms", status.renewal_lag->count());
  }
  if (status.places_alone) {
    json.member("places_alone", *status.places_alone);
  }
  if (status.providers) {
    json.key("providers").begin_array();
    std::size_t told = 0;
    for (const ProviderStatus& provider : *status.providers) {
      json.begin_object()
          .member("name", provider.name)
          .member("state", provider.state)
          .member("in_flight", provider.in_flight)
          .member("waiting", provider.waiting)
          .member("limit", provider.limit);
      if (provider.waits_for_account) {
        json.member("waits_for_account", true);
      }
      if (provider.troubled) {
        json.member("troubled_seconds", provider.troubled->count());
      }
      if (provider.calls && ++told <= kProvidersTold) {
        const ProviderCalls& calls = *provider.calls;
        json.key("calls")
            .begin_object()
            .member("answered", calls.answered)
            .member("fallback", calls.fallback)
            .member("undelivered", calls.undelivered);
        write_counts(json.key("errors"), calls.errors);
        write_times(json.key("times"), calls.times);
        json.end_object();
      }
      json.end_object();
    }
    json.end_array();
  }
  if (status.minute) {
    write_minute(json.key("minute").begin_object(), *status.minute);
    json.end_object();
  }
  if (status.minutes) {
    json.key("minutes").begin_array();
    for (const auto& [at, minute] : *status.minutes) {
      write_minute(json.begin_object().member("at", at), minute);
      json.key("failed_at").begin_array();
      for (const auto& [where, count] : minute.failed_at) {
        json.begin_array().value(where.first).value(where.second).value(count).end_array();
      }
      write_times(json.end_array().key("waits"), minute.waits);
      json.member("charged", minute.charged.value).end_object();
    }
    json.end_array();
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
  out.broker_away = time(document, "broker_away_seconds");
  if (const auto lag = number(document, "renewal_lag_ms")) {
    out.renewal_lag = std::chrono::milliseconds(static_cast<std::int64_t>(
        std::min<std::uint64_t>(*lag, std::chrono::milliseconds(kLongest).count())));
  }
  out.places_alone = number(document, "places_alone");
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
  if (const auto* const minutes = member(document, "minutes"); minutes && minutes->IsArray()) {
    out.minutes = read_minutes(*minutes);
  }
  return out;
}

}  // namespace audiogen
