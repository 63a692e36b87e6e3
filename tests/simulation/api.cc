#include "tests/simulation/api.h"

#include <array>

namespace audiogen::simulation {
namespace {

using std::chrono::seconds;

// As in api/generations/publishing.cc.
constexpr Duration kReportEvery = seconds(2);
constexpr seconds kWaitMax{60};

constexpr Duration kPatience = seconds(5);  // Of whoever waits for an answer.

}  // namespace

TaskId make_task_id(Instant at, std::uint16_t number) {
  TaskId id{first_uuid_at(at)};
  id.uuid.bytes[14] = static_cast<std::uint8_t>(number >> 8U);
  id.uuid.bytes[15] = static_cast<std::uint8_t>(number & 0xFFU);
  return id;
}

Api::Api(Shared& shared, Database& database, Store& store, Broker& broker, std::size_t number)
    : Process(shared.timeline, shared.random, "api " + std::to_string(number)),
      shared_(shared),
      database_(database),
      number_(number),
      creates_(shared,
               database,
               *this,
               store::CreateOutcome{},
               kPatience,
               [&store](Transaction& tx, auto& items, const Runs& runs) {
                 store.create(tx, items, runs);
               }),
      cancels_(shared,
               database,
               *this,
               store::Cancellation{},
               kPatience,
               [&store](Transaction& tx, auto& items, const Runs& runs) {
                 store.cancel(tx, items, runs);
               }),
      publisher_(shared, broker, *this, [this](const Hint& hint) { unsent_.settled(hint.task); }) {
  report();
}

void Api::create(UserId user, std::uint16_t task_number, std::uint32_t released_max) {
  store::CreateCommand command;
  command.id = make_task_id(wall_time(), task_number);
  command.user = user;
  command.deadline = std::chrono::duration_cast<seconds>(shared_.plan.deadline);
  command.released_max = released_max;
  const TaskId task = command.id;
  shared_.judge.perhaps_accepted(task, user, shared_.plan.deadline);
  unsent_.expect(task);
  creates_.submit(std::move(command), [this, task, user](const auto& outcome) {
    const bool unknown = !outcome && outcome.error() == store::StoreFault::kUnknownOutcome;
    const bool created = outcome && outcome->kind == store::CreateOutcome::Kind::kCreated;
    shared_.note(name(), [&] {
      return "answers for " + short_name(task) +
             (created   ? ": accepted"
              : unknown ? ": nobody knows"
                        : ": refused");
    });
    if (created) {
      shared_.judge.accepted(task, user, outcome->task.created_at, shared_.plan.deadline);
      if (outcome->lane == Lane::kParked && !shared_.is(Mutant::kParkedIsClaimed)) {
        unsent_.settled(task);
      } else {
        publisher_.submit(std::array{Hint{task, 0, outcome->lane}});
      }
    } else if (!unknown) {
      shared_.judge.refused(task);
      if (outcome && outcome->kind == store::CreateOutcome::Kind::kTooLate) {
        shared_.judge.refused_as_late(task);
      }
      unsent_.settled(task);
    }
  });
}

void Api::cancel(TaskId task) {
  store::CancelCommand command;
  command.task = task;
  cancels_.submit(command, [this, task](const auto& outcome) {
    using Outcome = store::CancelOutcome;
    if (!outcome ||
        (outcome->outcome != Outcome::kCanceled && outcome->outcome != Outcome::kAlreadyFinal)) {
      return;
    }
    const bool canceled = outcome->outcome == Outcome::kCanceled;
    shared_.note(name(), [&] {
      return short_name(task) + (canceled ? " is canceled" : " was final, too late to cancel");
    });
    shared_.judge.cancel_answered(task, canceled);
  });
}

void Api::report() {
  unsent_.forget(wall_time() - kWaitMax);
  const TaskId from = unsent_.from(wall_time());
  database_.execute(
      *this,
      [this, from] {
        database_.apis[number_] = {from, database_.now()};
      },
      [](bool) {});
  after(kReportEvery, [this] { report(); });
}

}  // namespace audiogen::simulation
