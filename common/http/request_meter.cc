#include "common/http/request_meter.h"

#include <algorithm>
#include <map>

#include "common/base/mutex.h"

namespace audiogen::http {
namespace {

// What is not in these is "other": whatever clients send, there are no more series than that.
constexpr std::array<std::string_view, 7> kMethodNames = {
    "GET", "POST", "HEAD", "DELETE", "PATCH", "PUT", "OPTIONS"};
constexpr std::array kStatusCodes = {
    200, 202, 204, 206, 304, 400, 401, 402, 403, 404, 405, 408, 409, 416, 429, 500, 503};

template <class Array, class Value>
std::size_t place_in(const Array& all, const Value& value) {
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), value) - all.begin());
}

std::uint64_t value_of(const std::atomic<prometheus::Counter*>& place) {
  const prometheus::Counter* const counter = place.load(std::memory_order_acquire);
  return counter == nullptr ? 0 : static_cast<std::uint64_t>(counter->Value());
}

struct Meters {
  Mutex mutex;
  std::map<std::string, RequestMeter> all GUARDED_BY(mutex);  // By their routes.
};

}  // namespace

RequestMeter& RequestMeter::of(const std::string& route) {
  static Meters meters;
  const MutexLock lock(meters.mutex);
  return meters.all.try_emplace(route, route).first->second;
}

RequestMeter::RequestMeter(std::string route)
    : route_(std::move(route)),
      times_(metrics::histogram("http_request_duration_seconds",
                                "From a request's last byte to its answer, or to the beginning of "
                                "one that comes in parts; "
                                "what was asked to wait (Prefer) waits in it",
                                {{"route", route_}})) {
  static_assert(kMethodNames.size() + 1 == kMethods && kStatusCodes.size() + 1 == kStatuses);
}

prometheus::Counter& RequestMeter::of(std::string_view method, int status) {
  const std::size_t row = place_in(kMethodNames, method), column = place_in(kStatusCodes, status);
  auto& place = counters_[row][column];
  prometheus::Counter* counter = place.load(std::memory_order_acquire);
  if (counter == nullptr) {
    counter = &metrics::counter(
        "http_requests_total",
        "Requests answered",
        {{"route", route_},
         {"method", row < kMethodNames.size() ? std::string(kMethodNames[row]) : "other"},
         {"status",
          column < kStatusCodes.size() ? std::to_string(kStatusCodes[column]) : "other"}});
    place.store(counter, std::memory_order_release);
  }
  return *counter;
}

std::uint64_t RequestMeter::answered(std::string_view method) const {
  std::uint64_t sum = 0;
  for (const auto& place : counters_[place_in(kMethodNames, method)]) {
    sum += value_of(place);
  }
  return sum;
}

std::uint64_t RequestMeter::answered(std::string_view method, int status) const {
  return value_of(counters_[place_in(kMethodNames, method)][place_in(kStatusCodes, status)]);
}

void RequestMeter::count(std::string_view method, int status) noexcept {
  try {
    of(method, status).Increment();
  } catch (...) {  // Without memory for a new one: it is there the next time.
  }
}

}  // namespace audiogen::http
