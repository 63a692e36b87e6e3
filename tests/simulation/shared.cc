#include "tests/simulation/shared.h"

#include <array>
#include <cstdio>

namespace audiogen::simulation {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::array kNames = {
    std::string_view("none"),
    std::string_view("no-epoch-at-settle"),
    std::string_view("settle-twice"),
    std::string_view("no-epoch-at-claim"),
    std::string_view("claim-early"),
    std::string_view("no-epoch-at-reap"),
    std::string_view("no-wake-at-retry"),
    std::string_view("no-wake-at-claim"),
    std::string_view("trust-jumped-clock"),
    std::string_view("no-pull-back"),
    std::string_view("pull-from-creation"),
    std::string_view("pulled-stays-ahead"),
    std::string_view("sweep-by-old-clock"),
    std::string_view("pull-back-once"),
    std::string_view("pull-back-by-old-clock"),
    std::string_view("marks-stay"),
    std::string_view("no-self-stop"),
    std::string_view("lease-from-answer"),
    std::string_view("call-on-thaw"),
    std::string_view("no-locks"),
    std::string_view("blind-repeat"),
    std::string_view("lost-is-nothing"),
    std::string_view("claims-unlimited"),
    std::string_view("cancel-keeps-credits"),
    std::string_view("charge-whole"),
    std::string_view("no-return"),
    std::string_view("release-nobody-at-end"),
    std::string_view("no-look-after-crowds"),
    std::string_view("hint-before-commit"),
    std::string_view("release-all"),
    std::string_view("park-nobody"),
    std::string_view("no-plan-limit"),
    std::string_view("release-newest"),
    std::string_view("release-past-held"),
    std::string_view("parked-is-claimed"),
    std::string_view("cancel-keeps-place"),
    std::string_view("parked-ends-as-released"),
    std::string_view("lost-not-counted"),
    std::string_view("lost-always-counted"),
    std::string_view("suspects-together"),
    std::string_view("suspect-begins-at-once"),
    std::string_view("others-beside-suspect"),
    std::string_view("bulk-first"),
    std::string_view("small-are-refused"),
    std::string_view("trust-queue"),
};
static_assert(kNames.size() == static_cast<std::size_t>(Mutant::kLastMutant) + 1);

}  // namespace

std::string_view mutant_name(Mutant mutant) {
  return kNames[static_cast<std::size_t>(mutant)];
}

Plan plan_for(Random& random) {
  Plan plan;
  plan.calm = random.chance(0.1);
  const bool crowds = random.chance(0.34);
  const auto some = [&] { return random.chance(0.35) && !plan.calm; };
  const auto rate = [&](double most) { return some() ? most * random.real() : 0; };
  const auto every = [&](Duration least, Duration most) {
    return some() ? random.between(least, most) : Duration(0);
  };
  plan.apis = 1 + random.below(2);
  plan.workers = 1 + random.below(3);
  plan.users = 1 + random.below(crowds ? 5 : 3);
  plan.tasks = 1 + random.below(random.chance(0.2) ? 30 : 10);
  plan.places = 1 + random.below(random.chance(0.3) ? 2 : 8);
  plan.sweep_limit = random.chance(0.3) ? 1 + random.below(4) : 200;
  plan.pull = random.chance(0.7);
  plan.start_named = random.chance(0.8);
  const std::vector<Duration> deadlines = {seconds(60), seconds(150), minutes(5), minutes(15)};
  plan.deadline = random.pick(deadlines);
  plan.heals = random.between(seconds(20), random.chance(0.3) ? minutes(12) : minutes(4));
  plan.credits_for = random.chance(0.2) ? 0.5 : 2;
  // Mostly small ones: they cost as much time as they have tasks.
  if (crowds) {
    for (std::size_t i = 0, count = 1 + random.below(random.chance(0.3) ? 3 : 1); i < count; ++i) {
      const double part = random.real();
      plan.bursts.push_back(50 + static_cast<std::size_t>(250 * part * part * part * part));
    }
  }
  for (std::size_t i = 0; i < plan.users; ++i) {
    const bool limited = random.chance(crowds ? 0.4 : 0.2);
    plan.released_max.push_back(limited ? 1 + static_cast<std::uint32_t>(random.below(6)) : 0);
  }

  plan.commit_lost = rate(0.2);
  plan.row_slow = rate(0.05);
  plan.hint_lost = rate(1);
  plan.hint_twice = rate(0.5);
  plan.hint_late = rate(0.5);
  plan.hint_refused = rate(0.3);
  plan.provider_fails = rate(0.8);
  plan.provider_slow = rate(0.6);
  plan.cancels = rate(0.5);
  plan.uncalled = rate(0.2);
  plan.deadly = rate(0.3);

  plan.worker_dies = every(seconds(10), minutes(3));
  plan.worker_freezes = every(seconds(10), minutes(3));
  plan.worker_stops = every(seconds(20), minutes(3));
  plan.api_dies = every(seconds(20), minutes(3));
  plan.api_freezes = every(seconds(20), minutes(3));
  plan.database_away = every(seconds(20), minutes(4));
  plan.broker_away = every(seconds(20), minutes(4));
  plan.broker_purged = every(seconds(10), minutes(4));
  plan.clock_set = every(minutes(1), minutes(5));
  plan.row_held = every(seconds(10), minutes(2));
  return plan;
}

std::string describe(const Plan& plan) {
  const auto time = [](Duration of) {
    return std::to_string(std::chrono::duration_cast<seconds>(of).count()) + " s";
  };
  const auto part = [](double of) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "%.2f", of);
    return std::string(text.data());
  };
  std::string out = std::to_string(plan.apis) + " APIs, " + std::to_string(plan.workers) +
                    " workers of " + std::to_string(plan.places) + " places, " +
                    std::to_string(plan.users) + " users, " + std::to_string(plan.tasks) +
                    " tasks of " + time(plan.deadline) + ", looks of " +
                    std::to_string(plan.sweep_limit) + ", heals at " + time(plan.heals);
  for (const std::size_t burst : plan.bursts) {
    out += "; " + std::to_string(burst) + " at once";
  }
  for (std::size_t i = 0; i < plan.released_max.size(); ++i) {
    if (plan.released_max[i] != 0) {
      out += "; user " + std::to_string(i + 1) + " has " + std::to_string(plan.released_max[i]) +
             " released";
    }
  }
  out += plan.calm ? "; all is calm" : "";
  out += plan.pull ? "" : "; nobody pulls";
  const auto chance = [&](const char* what, double of) {
    out += of > 0 ? std::string("; ") + what + " " + part(of) : "";
  };
  const auto mean = [&](const char* what, Duration of) {
    out += of > Duration(0) ? std::string("; ") + what + " every " + time(of) : "";
  };
  chance("COMMIT lost", plan.commit_lost);
  chance("statement slow", plan.row_slow);
  chance("hint lost", plan.hint_lost);
  chance("hint twice", plan.hint_twice);
  chance("hint late", plan.hint_late);
  chance("hint refused", plan.hint_refused);
  chance("provider fails", plan.provider_fails);
  chance("provider slow", plan.provider_slow);
  chance("canceled", plan.cancels);
  chance("not called", plan.uncalled);
  chance("deadly", plan.deadly);
  mean("worker dies", plan.worker_dies);
  mean("worker freezes", plan.worker_freezes);
  mean("worker stops", plan.worker_stops);
  mean("API dies", plan.api_dies);
  mean("API freezes", plan.api_freezes);
  mean("database away", plan.database_away);
  mean("broker away", plan.broker_away);
  mean("queue purged", plan.broker_purged);
  mean("clock set", plan.clock_set);
  mean("row held", plan.row_held);
  return out;
}

void Log::line(Duration at, const std::string& who, const std::string& what) {
  std::array<char, 32> time{};
  std::snprintf(time.data(), time.size(), "%11.6f  ", std::chrono::duration<double>(at).count());
  text_ += time.data() + who + ": " + what + "\n";
}

bool Shared::is_deadly(TaskId task) const {
  return plan.deadly > 0 && Random(seed_ * 65'536 + number_of(task)).chance(plan.deadly);
}

std::size_t number_of(TaskId task) {
  return std::size_t{task.uuid.bytes[14]} * 256 + task.uuid.bytes[15];
}

std::string short_name(TaskId task) {
  return "task " + std::to_string(number_of(task));
}

}  // namespace audiogen::simulation
