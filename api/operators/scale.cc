#include "api/operators/scale.h"

#include "api/operators/answers.h"
#include "common/base/json.h"

namespace audiogen::api {

std::string scale_json(const ScaleFigures& figures, std::uint64_t wanted, Instant as_of) {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .member("wanted_workers", wanted)
      .member("current", figures.current)
      .member("limited_by", figures.limited_by)
      .member("backlog", figures.backlog.value)
      .member("backlog_exact", figures.backlog.exact);
  decimal(json, "arrivals_per_s", figures.arrivals_per_second);
  decimal(json, "service_seconds_p50", figures.service_seconds_p50);
  decimal(json, "drain_seconds", figures.drain_seconds);
  json.key("safe_to_remove").begin_array();
  for (const WorkerId& worker : figures.safe_to_remove) {
    json.value(worker);
  }
  json.end_array().member("as_of", as_of).end_object();
  return out;
}

void Scale::handle(const http::Exchange& exchange) {
  watch_.ask(SituationWatch::Asks::kPeople, [this, exchange](const auto& seen) {
    if (!seen) {
      exchange.reply(database_away());
      return;
    }
    const ScaleFigures figures = scale_figures(seen->situation, places_);
    std::uint64_t wanted = 0;
    {
      const MutexLock lock(mutex_);
      wanted = wanted_.look(figures, SituationWatch::Clock::now());
    }
    exchange.reply(ops_json(scale_json(figures, wanted, seen->situation.at)));
  });
}

}  // namespace audiogen::api
