#include "api/admin/queue.h"

#include <cmath>
#include <cstdint>
#include <optional>

#include "api/admin/output.h"
#include "common/domain/situation.h"
#include "common/queue/amqp.h"

namespace audiogen::api {
namespace {

using std::chrono::duration_cast;
using std::chrono::seconds;

// A number of at most three decimals, or null.
void decimal(Json& json, const char* name, const std::optional<double>& value) {
  constexpr double kThousand = 1000;
  json.member(name, value ? std::optional(Units{std::llround(*value * kThousand)}) : std::nullopt);
}

std::string situation_json(const Situation& now, const std::optional<queue::Depth>& broker) {
  const auto ended = ended_in_last_minute(now);
  const auto completions = completions_per_second(now);
  Json json;
  json.member("verdict", assess(now).sentence)
      .member("as_of", now.at)
      .member("ready", now.ready.value)
      .member("in_flight", now.running.value)
      .member("waiting_retry", now.waiting_retry.value)
      .member("parked", now.parked.value)
      .member("exact", now.open().exact)
      .member("oldest_seconds", duration_cast<seconds>(now.oldest_waiting()).count());
  decimal(json, "arrivals_per_second", now.arrivals_per_second);
  decimal(json, "completions_per_second", completions);
  json.member("done_per_minute", ended ? std::optional(ended->succeeded) : std::nullopt)
      .member("failed_per_minute", ended ? std::optional(ended->failures()) : std::nullopt);
  decimal(json, "service_seconds_p50", ended ? ended->times.median_seconds() : std::nullopt);
  decimal(json, "drain_seconds", drain_seconds(now.backlog(), completions));
  const auto& pause = now.intake_paused;
  json.member("intake_paused_since", pause ? std::optional(pause->since) : std::nullopt)
      .member("intake_paused_by", pause ? std::optional(pause->by) : std::nullopt)
      .member("intake_paused_reason", pause ? std::optional(pause->reason) : std::nullopt);
  json.member("credits_held", now.credits_held)
      .member("dead", broker ? std::optional(broker->dead) : std::nullopt)
      .objects("workers",
               now.workers,
               [&](const Situation::Worker& worker) {
                 const WorkerStatus& status = worker.status;
                 json.member("id", worker.id)
                     .member("host", worker.host)
                     .member("pid", worker.pid)
                     .member("version",
                             status.version.empty() ? std::nullopt : std::optional(status.version))
                     .member("state", worker_state_name(worker.state))
                     .member("alive", worker.works())
                     .member("draining", worker.works() ? status.draining : std::nullopt)
                     .member("in_flight", worker.in_flight)
                     .member("limit", worker.places)
                     .member("started_at", worker.started_at)
                     .member("seen_at", worker.seen_at)
                     .member("ended_at", worker.ended_at);
               })
      .objects("providers",
               providers_of(now),
               [&](const ProviderSum& provider) {
                 json.member("name", provider.name)
                     .member("state", provider.state)
                     .member("in_flight", provider.in_flight)
                     .member("limit", provider.limit)
                     .member("waiting", provider.waiting)
                     .member("workers", provider.workers)
                     .member("workers_ready", provider.workers_ready);
                 const auto& said = provider.overridden;
                 json.member("override",
                             said ? std::optional(said->open ? "open" : "closed") : std::nullopt)
                     .member("override_until", said ? std::optional(said->until) : std::nullopt);
               })
      .objects("apis",
               now.apis,
               [&](const Situation::Api& api) {
                 json.member("id", api.id)
                     .member("alive", api.alive)
                     .member("unsent_seconds", duration_cast<seconds>(api.unsent).count());
                 decimal(json, "refused_share", api.refused_share());
                 json.member("seen_at", api.seen_at);
               })
      .objects("failed", ended ? ended->failed : MinuteEnded().failed, [&](const auto& code) {
        json.member("code", code.first).member("in_last_minute", code.second);
      });
  return json.finish();
}

}  // namespace

Reply queue(Doors& doors, const Options&) {
  const auto now = doors.situations.look();
  if (!now) {
    return failure(now.error());
  }
  std::optional<queue::Depth> depth;
  if (const auto broker = load_amqp_url()) {
    depth = queue::read_depth(*broker);
  }
  return Answer{situation_json(*now, depth),
                depth ? "" : "The broker did not answer (AMQP_URL), so dead is not known."};
}

}  // namespace audiogen::api
