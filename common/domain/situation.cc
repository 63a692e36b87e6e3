#include "common/domain/situation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace audiogen {
namespace {

using State = Situation::Worker::State;
using std::chrono::seconds;

constexpr double kMinute = 60;
// Longer than that nothing should wait while there is room.
constexpr seconds kWaitsLong{15}, kStalled{60};

double in_seconds(std::chrono::microseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string rate_text(double per_second) {
  char out[32];
  std::snprintf(out, sizeof out, per_second < 10 ? "%.1f/s" : "%.0f/s", per_second);
  return out;
}

std::string time_text(double of) {
  constexpr double kHour = 3600;
  char out[32];
  if (of < 2 * kMinute) {
    std::snprintf(out, sizeof out, "%.0f s", of);
  } else if (of < 2 * kHour) {
    std::snprintf(out, sizeof out, "%.0f min", of / kMinute);
  } else {
    std::snprintf(out, sizeof out, "%.0f h", of / kHour);
  }
  return out;
}

// What it told last may be true no more.
bool is_silent(const Situation& situation, const Situation::Worker& worker) {
  return worker.works() && situation.at - worker.seen_at >= kWorkerSilent;
}

// "worker `host:4711` not heard of for 3 s"; of several, for how long all of them. Empty: there is
// none.
std::string silence_of(const Situation& situation) {
  std::size_t silent = 0;
  std::optional<Instant> heard;
  std::string name;
  for (const Situation::Worker& worker : situation.workers) {
    if (is_silent(situation, worker)) {
      heard = std::max(heard.value_or(worker.seen_at), worker.seen_at);
      name = worker.host + ":" + std::to_string(worker.pid);
      ++silent;
    }
  }
  if (silent == 0) {
    return "";
  }
  return (silent == 1 ? "worker `" + name + "`" : std::to_string(silent) + " workers") +
         " not heard of for " + time_text(in_seconds(situation.at - *heard));
}

// What is no client's doing, and more than chance: so many, and such a share. The alerts
// FailureRateHigh and ErrorBudgetFast have the same shares.
constexpr std::uint64_t kLeast = 3;
constexpr double kFailedShare = 0.05, kRefusedShare = 0.0144;

bool is_much(std::uint64_t bad, std::uint64_t all, double share) {
  return bad >= kLeast && static_cast<double>(bad) > share * static_cast<double>(all);
}

bool is_ours(std::string_view code) {
  return code == failure_code_name(FailureCode::kProviderUnavailable) ||
         code == failure_code_name(FailureCode::kProviderRejected) ||
         code == failure_code_name(FailureCode::kDeadlineExceeded) ||
         code == failure_code_name(FailureCode::kInternalError);
}

// "40 of 41 tasks of the last minute failed (internal_error)"; empty: few did, as far as is known.
std::string failures_of(const Situation& situation) {
  const auto ended = ended_in_last_minute(situation);
  if (!ended) {
    return "";
  }
  std::uint64_t failed = 0, most = 0;
  std::string mostly;
  for (const auto& [code, count] : ended->failed) {
    if (is_ours(code)) {
      failed += count;
      mostly = count > most ? code : mostly;
      most = std::max(most, count);
    }
  }
  // What failed by its client's doing says nothing of the others. Where few come, all that there
  // are say enough.
  const std::uint64_t all = ended->succeeded + failed;
  if (failed == 0 || (ended->succeeded > 0 && !is_much(failed, all, kFailedShare))) {
    return "";
  }
  return count_text({failed}) + " of " + count_text({all}) + " tasks of the last minute failed (" +
         (most < failed ? "mostly " : "") + mostly + ")";
}

// "12 % of creations refused"; empty: hardly any is, as far as is known. Where all of them are
// refused by some of several processes, "API process `…` refuses all creations": among many that do
// well their share is small.
std::string refusals_of(const Situation& situation) {
  std::size_t alive = 0, refuse_all = 0;
  std::string name;
  for (const Situation::Api& api : situation.apis) {
    alive += api.alive ? 1 : 0;
    if (api.alive && api.last_minute && api.last_minute->refused >= kLeast &&
        api.last_minute->refused == api.last_minute->answered) {
      ++refuse_all;
      name = "API process `" + api.id.text() + "` refuses";
    }
  }
  if (refuse_all > 0 && refuse_all < alive) {
    return (refuse_all == 1 ? name
                            : std::to_string(refuse_all) + " of " + std::to_string(alive) +
                                  " API processes refuse") +
           " all creations";
  }
  const CreationCount minute = situation.last_minute().value_or(CreationCount());
  if (!is_much(minute.refused, minute.answered, kRefusedShare)) {
    return "";
  }
  constexpr double kPercent = 100;
  char out[48];
  std::snprintf(out, sizeof out, "%.0f %% of creations refused", kPercent * minute.refused_share());
  return out;
}

// "worker …, provider `primary` open, provider `other` half open, …"; empty: all are there and
// ready, and what is asked for is done, as far as is known.
std::string troubles_of(const Situation& situation, const std::vector<ProviderSum>& providers) {
  std::string out;
  const auto say = [&out](const std::string& trouble) {
    out += (out.empty() || trouble.empty() ? "" : ", ") + trouble;
  };
  say(silence_of(situation));
  for (const ProviderSum& provider : providers) {
    const std::string name = "provider `" + provider.name + "` ";
    if (provider.overridden) {
      say(name + "held " + (provider.overridden->open ? "open" : "closed") + " by operator");
    } else if (provider.state != "ready") {
      say(name + (provider.state == "half_open" ? "half open" : provider.state));
    }
  }
  say(failures_of(situation));
  say(refusals_of(situation));
  return out;
}

std::string with_troubles(std::string sentence, const std::string& troubles) {
  return troubles.empty() ? sentence : sentence + ", " + troubles;
}

// The first of the chain where nobody calls anybody.
std::optional<std::string> nobody_calls(const std::vector<ProviderSum>& providers) {
  const bool none = std::all_of(providers.begin(), providers.end(), [](const ProviderSum& p) {
    return p.workers_ready == 0;
  });
  return none && !providers.empty() ? std::optional(providers.front().name) : std::nullopt;
}

// The first of the chain for a place of whose account calls wait, if no other call waits.
std::optional<std::string> accounts_are_full(const std::vector<ProviderSum>& providers) {
  std::optional<std::string> first;
  for (const ProviderSum& provider : providers) {
    if (provider.waiting > provider.waiting_for_account) {
      return std::nullopt;
    }
    if (!first && provider.waiting > 0) {
      first = provider.name;
    }
  }
  return first;
}

// "Busy: 230 wait, all 8 places are taken"; empty: there is room, or what waits is no more than
// what is worked on. Said long before anybody has waited long.
std::string fullness_of(const Situation& situation, const AtLeast& backlog) {
  std::uint64_t places = 0;
  for (const Situation::Worker& worker : situation.workers) {
    if (!worker.works() || worker.drains() || is_silent(situation, worker)) {
      continue;
    }
    if (worker.in_flight < worker.places) {
      return "";
    }
    places += worker.places;
  }
  return places == 0 || backlog.value <= places ? ""
                                                : "Busy: " + count_text(backlog) + " wait, all " +
                                                      count_text({places}) + " places are taken";
}

// So many places are taken by what arrives, and by what waits, were it done within a minute.
double places_taken(double service_seconds, double arrivals_per_second, std::uint64_t waiting) {
  return service_seconds * (arrivals_per_second + static_cast<double>(waiting) / kMinute);
}

std::uint64_t working(const Situation& situation) {
  return static_cast<std::uint64_t>(
      std::count_if(situation.workers.begin(), situation.workers.end(), [](const auto& worker) {
        return worker.works() && !worker.drains();
      }));
}

}  // namespace

std::string count_text(const AtLeast& count) {
  std::string out = std::to_string(count.value);
  constexpr std::size_t kGroup = 3;
  for (std::size_t at = out.size(); at > kGroup;) {
    at -= kGroup;
    out.insert(at, ",");
  }
  return count.exact ? out : out + "+";
}

std::string_view worker_state_name(State state) {
  switch (state) {
    case State::kWorking:
      return "working";
    case State::kEnded:
      return "ended";
    case State::kLost:
      break;
  }
  return "lost";
}

std::optional<MinuteEnded> ended_in_last_minute(const Situation& situation) {
  MinuteEnded out;
  for (const Situation::Worker& worker : situation.workers) {
    const Instant told_at = worker.ended_at.value_or(worker.seen_at);
    const double since = in_seconds(situation.at - told_at), ago = std::max(since, 0.0);
    // Nor counts who was there in a time that is yet to come: the clock was set back.
    if (!worker.works() && std::abs(since) >= kMinute) {
      continue;
    }
    if (!worker.status.minute) {
      return std::nullopt;
    }
    MinuteEnded part = *worker.status.minute;
    if (!worker.works() || is_silent(situation, worker)) {
      const auto share = [&](std::uint64_t count) {
        return static_cast<std::uint64_t>(
            std::llround(static_cast<double>(count) * (kMinute - ago) / kMinute));
      };
      part.succeeded = share(part.succeeded);
      for (auto& [code, count] : part.failed) {
        count = share(count);
      }
    }
    out.add(part);
  }
  return out;
}

std::optional<double> completions_per_second(const Situation& situation) {
  const auto ended = ended_in_last_minute(situation);
  return ended ? std::optional(static_cast<double>(ended->all()) / kMinute) : std::nullopt;
}

std::optional<MinuteEnded> ended_in_minute(const std::vector<Situation::Worker>& workers,
                                           std::int64_t minute,
                                           Instant now) {
  const Instant from{std::chrono::minutes(minute)}, to{std::chrono::minutes(minute + 1)};
  MinuteEnded out;
  for (const Situation::Worker& worker : workers) {
    // It was gone, or not there yet.
    const bool by_another_clock = !worker.works() && worker.seen_at > now + kClockSlack;
    if (worker.seen_at < from || worker.started_at >= to || by_another_clock) {
      continue;
    }
    const auto& told = worker.status.minutes;
    const auto found = told ? told->find(minute) : WholeMinutes::const_iterator();
    if (!told || found == told->end()) {
      return std::nullopt;
    }
    out.add(found->second);
  }
  return out;
}

std::vector<ProviderSum> providers_of(const Situation& situation) {
  std::vector<ProviderSum> out;
  for (const Situation::Worker& worker : situation.workers) {
    if (!worker.works() || !worker.status.providers) {
      continue;
    }
    for (const ProviderStatus& told : *worker.status.providers) {
      auto sum = std::find_if(
          out.begin(), out.end(), [&](const ProviderSum& one) { return one.name == told.name; });
      if (sum == out.end()) {
        out.push_back(
            {.name = told.name, .state = told.state, .limit = 0, .calls = ProviderCalls()});
        sum = out.end() - 1;
      }
      const bool ready = told.state == "ready";
      sum->state = ready ? sum->state : told.state;
      sum->in_flight += told.in_flight;
      sum->waiting += told.waiting;
      sum->waiting_for_account += told.waits_for_account ? told.waiting : 0;
      sum->limit =
          sum->limit && told.limit ? std::optional(*sum->limit + *told.limit) : std::nullopt;
      if (told.troubled) {
        const Instant since = worker.seen_at - *told.troubled;
        sum->troubled_since = std::min(sum->troubled_since.value_or(since), since);
      }
      if (sum->calls && told.calls) {
        sum->calls->add(*told.calls);
      } else {
        sum->calls.reset();
      }
      sum->workers += 1;
      sum->workers_ready += ready ? 1 : 0;
    }
  }
  for (ProviderSum& sum : out) {
    const auto said = std::find_if(
        situation.overrides.begin(), situation.overrides.end(), [&](const BreakerOverride& one) {
          return one.provider == sum.name;
        });
    sum.overridden = said == situation.overrides.end() ? std::nullopt : std::optional(*said);
  }
  return out;
}

std::optional<seconds> broker_away(const Situation& situation) {
  std::optional<seconds> out;
  for (const Situation::Worker& worker : situation.workers) {
    if (worker.works() && !is_silent(situation, worker) && worker.status.broker_away) {
      out = std::min(out.value_or(seconds::max()), *worker.status.broker_away);
    }
  }
  return out;
}

std::optional<double> drain_seconds(const AtLeast& backlog, std::optional<double> completions) {
  if (backlog.value == 0 && backlog.exact) {
    return 0.0;
  }
  if (!completions || !(*completions > 0)) {
    return std::nullopt;
  }
  return static_cast<double>(backlog.value) / *completions;
}

namespace {

Assessment assess_work(const Situation& situation) {
  const std::vector<ProviderSum> providers = providers_of(situation);
  const std::string troubles = troubles_of(situation, providers);
  const AtLeast backlog = situation.backlog();
  const auto oldest = situation.oldest_waiting();
  const auto completions = completions_per_second(situation);
  if (working(situation) == 0) {
    return {backlog.value > 0 ? "No worker takes tasks: " + count_text(backlog) + " wait"
                              : "No worker takes tasks; none waits"};
  }
  if (oldest >= kStalled && completions && *completions <= 0) {
    return {with_troubles("Stalled: " + count_text(backlog) + " wait, the oldest for " +
                              time_text(in_seconds(oldest)) + ", none has ended in a minute",
                          troubles)};
  }
  if (oldest >= kWaitsLong && completions) {
    if (situation.arrivals_per_second > *completions) {
      return {with_troubles("Falling behind: arrivals " + rate_text(situation.arrivals_per_second) +
                                ", completions " + rate_text(*completions),
                            troubles)};
    }
    const auto drain = drain_seconds(backlog, completions);
    return {with_troubles("Catching up: " + count_text(backlog) + " wait" +
                              (drain ? ", about " + time_text(*drain) : ""),
                          troubles)};
  }
  if (oldest >= kWaitsLong) {
    return {with_troubles("Behind: " + count_text(backlog) + " wait, the oldest for " +
                              time_text(in_seconds(oldest)) + "; completions are not known",
                          troubles)};
  }
  if (const auto away = broker_away(situation); away && *away > seconds(0)) {
    return {with_troubles("Broker away " + time_text(in_seconds(*away)) +
                              ": workers pull tasks from the database, about a second late",
                          troubles)};
  }
  if (const std::string full = fullness_of(situation, backlog); !full.empty()) {
    return {with_troubles(full, troubles), troubles.empty() ? Health::kBusy : Health::kTroubled};
  }
  if (!troubles.empty()) {
    return {"Trouble: " + troubles};
  }
  return {"Healthy", Health::kHealthy};
}

}  // namespace

Assessment assess(const Situation& situation) {
  Assessment work = assess_work(situation);
  if (!situation.intake_paused) {
    return work;
  }
  const std::string paused = "Intake paused by operator: " + situation.intake_paused->reason;
  return {work.health == Health::kHealthy ? paused : paused + ". " + work.sentence};
}

std::string_view health_name(Health health) {
  switch (health) {
    case Health::kHealthy:
      return "healthy";
    case Health::kBusy:
      return "busy";
    case Health::kTroubled:
      break;
  }
  return "troubled";
}

ScaleFigures scale_figures(const Situation& situation, std::uint64_t places) {
  ScaleFigures out{.current = working(situation),
                   .backlog = situation.backlog(),
                   .later = situation.retry_later,
                   .arrivals_per_second = situation.arrivals_per_second,
                   .places = static_cast<double>(std::max<std::uint64_t>(places, 1))};
  if (const auto ended = ended_in_last_minute(situation)) {
    out.service_seconds_p50 = ended->times.median_seconds();
  }
  // What one leaves of his places is no other's.
  for (const Situation::ByPlan& user : situation.by_plan) {
    out.by_plan += user.waiting;
    out.arrivals_by_plan += user.arrivals_per_second;
    out.places_by_plan += std::min(
        places_taken(out.service_seconds_p50.value_or(0), user.arrivals_per_second, user.waiting),
        static_cast<double>(user.places));
  }
  out.drain_seconds = drain_seconds(out.backlog, completions_per_second(situation));
  // Those that call nobody have none at the moment.
  std::uint64_t sum = 0, tell = 0;
  for (const Situation::Worker& worker : situation.workers) {
    const std::uint64_t could =
        std::max(worker.status.places_alone.value_or(worker.places), worker.places);
    if (worker.works() && could > 0) {
      // What it could have: of an account each of many has little, and more of them do no more.
      sum += could;
      ++tell;
    }
    if (worker.works() && !worker.drains() && !is_silent(situation, worker) &&
        worker.in_flight == 0) {
      out.safe_to_remove.push_back(worker.id);
    }
  }
  if (tell > 0) {
    out.places = static_cast<double>(sum) / static_cast<double>(tell);
  }
  const std::vector<ProviderSum> providers = providers_of(situation);
  const auto none = nobody_calls(providers);
  if (const auto name = none ? none : accounts_are_full(providers)) {
    out.limited_by = "provider:" + *name;
  }
  return out;
}

std::uint64_t workers_for(const ScaleFigures& figures) {
  constexpr double kTaken = 0.7, kMost = 10'000;
  const bool work = figures.backlog.value > 0 || figures.arrivals_per_second > 0;
  if (!figures.service_seconds_p50) {
    return work ? std::max<std::uint64_t>(figures.current, 1) : 1;
  }
  const std::uint64_t waits =
      figures.backlog.value - std::min(figures.backlog.value, figures.later + figures.by_plan);
  const double arrivals = figures.arrivals_per_second - figures.arrivals_by_plan;
  const double tasks =
      places_taken(*figures.service_seconds_p50, arrivals, waits) + figures.places_by_plan;
  // What a difference of two sums leaves of nothing asks for nobody.
  constexpr double kNothing = 1e-9;
  return static_cast<std::uint64_t>(std::clamp(
      std::ceil(tasks / (kTaken * std::max(figures.places, 1.0)) - kNothing), 1.0, kMost));
}

std::uint64_t ScaleWatch::look(const ScaleFigures& figures, Time now) {
  if (!since_ || now - *looked_at_ > kScaleDownAfter) {
    since_ = now;
    seen_.clear();
  }
  looked_at_ = now;
  const std::uint64_t wanted = workers_for(figures);
  while (!seen_.empty() && seen_.back().workers <= wanted) {
    seen_.pop_back();
  }
  seen_.push_back({now, wanted});
  while (now - seen_.front().at > kScaleDownAfter) {
    seen_.pop_front();
  }
  std::uint64_t out = seen_.front().workers;
  if (now - *since_ < kScaleDownAfter) {
    out = std::max(out, figures.current);
  }
  return figures.limited_by ? std::min(out, std::max<std::uint64_t>(figures.current, 1)) : out;
}

std::optional<CreationCount> Situation::last_minute() const {
  std::optional<CreationCount> sum;
  for (const Api& api : apis) {
    if (api.alive && api.last_minute) {
      sum = sum.value_or(CreationCount());
      sum->answered += api.last_minute->answered;
      sum->refused += api.last_minute->refused;
    }
  }
  return sum;
}

}  // namespace audiogen
