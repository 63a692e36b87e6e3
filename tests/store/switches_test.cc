// What operators tell the running programs, and who gets to know it.
#include "common/store/switches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/store/probe.h"
#include "common/store/situations.h"
#include "tests/store/doors_fixture.h"

namespace audiogen::store {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class SwitchesTest : public DoorsTest {
 protected:
  WorkerOrders orders(WorkerId worker) {
    const auto told = tasks_.report_worker(worker, "h", 1, {.places = 10});
    EXPECT_TRUE(told);
    return told ? *told : WorkerOrders();
  }
  // The results of all notes with this action, the oldest first.
  std::vector<std::uint32_t> noted(const char (&action)[5]) {
    std::vector<std::uint32_t> out;
    Session session(db_.url());
    Rows rows = session.query(Sql("SELECT result FROM admin_actions WHERE action='")
                              << action << "' ORDER BY id");
    while (rows.next()) {
      out.push_back(rows.u32(1));
    }
    return out;
  }
  ActionNote note() {
    return ActionNote(
        {.who = "ops", .action = "test", .target = "", .detail = "", .reason = "why"});
  }

  Session doors_{db_.url(), kOperatorPatience};
  const Said said_{.by = "ann@host", .reason = "it \"moves\""};
};

TEST_F(SwitchesTest, AWorkerIsToldHowManyThereAre) {
  const WorkerId worker = WorkerId::make(), other = WorkerId::make(), gone = WorkerId::make();
  EXPECT_EQ(orders(worker).workers, 1U);
  orders(other);
  orders(gone);
  EXPECT_EQ(orders(worker).workers, 3U);
  ASSERT_TRUE(tasks_.report_worker(
      other, "h", 1, {.status_json = encode_worker_status({.draining = true})}));
  EXPECT_EQ(orders(worker).workers, 2U) << "who leaves takes nothing";
  orders(other);
  EXPECT_EQ(orders(worker).workers, 3U);
  ASSERT_TRUE(tasks_.report_worker_ended(other));
  db_.execute(Sql("UPDATE workers SET seen_at=seen_at - INTERVAL 1 MINUTE WHERE id=") << gone);
  EXPECT_EQ(orders(worker).workers, 1U);
  db_.execute(Sql("UPDATE workers SET seen_at=seen_at + INTERVAL 10 MINUTE WHERE id=") << gone);
  EXPECT_EQ(orders(worker).workers, 1U) << "the database's clock was set back since";
}

TEST_F(SwitchesTest, AWorkerIsToldToDrain) {
  const WorkerId worker = WorkerId::make(), other = WorkerId::make();
  EXPECT_FALSE(orders(worker).drain);
  orders(other);
  const ActionNote done = note();
  EXPECT_FALSE(*Switches(doors_, &done).drain_worker(worker));
  EXPECT_TRUE(orders(worker).drain);
  EXPECT_FALSE(orders(other).drain);
  const ActionNote again = note();
  EXPECT_TRUE(*Switches(doors_, &again).drain_worker(worker)) << "asked before";
  EXPECT_TRUE(orders(worker).drain);
  EXPECT_THAT(noted("test"), ElementsAre(1, 1));
  EXPECT_EQ(code_of(Switches(doors_).drain_worker(WorkerId::make())), FaultCode::kNoSuchWorker);
  ASSERT_TRUE(tasks_.report_worker_ended(other));
  EXPECT_EQ(code_of(Switches(doors_).drain_worker(other)), FaultCode::kWorkerGone);
  EXPECT_THAT(noted("test"), SizeIs(2)) << "a refusal is the caller's to note";
}

TEST_F(SwitchesTest, ABreakerIsHeldForAWhile) {
  const WorkerId worker = WorkerId::make();
  Switches switches(doors_);
  EXPECT_THAT(orders(worker).breakers, IsEmpty());
  ASSERT_TRUE(switches.override_breaker("a", true, seconds(600), said_));
  ASSERT_TRUE(switches.override_breaker("b", false, seconds(60), said_));
  auto told = orders(worker).breakers;
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[0].provider, "a");
  EXPECT_TRUE(told[0].open);
  EXPECT_LE(told[0].left, seconds(600));
  EXPECT_GT(told[0].left, seconds(60));
  EXPECT_FALSE(told[1].open);
  const auto now = Situations(doors_).look();
  ASSERT_TRUE(now) << now.error().detail;
  ASSERT_THAT(now->overrides, SizeIs(2));
  EXPECT_EQ(now->overrides[0].provider, "a");
  EXPECT_TRUE(now->overrides[0].open);
  EXPECT_GT(now->overrides[0].until, now->at);

  const ActionNote note_of = note();
  ASSERT_TRUE(Switches(doors_, &note_of).override_breaker("a", false, seconds(60), said_));
  EXPECT_FALSE(orders(worker).breakers[0].open) << "the last word counts";
  ASSERT_TRUE(switches.clear_override("a"));
  EXPECT_THAT(orders(worker).breakers, SizeIs(1));
  EXPECT_EQ(code_of(switches.clear_override("a")), FaultCode::kNoOverride);

  // Past its end it is nobody's any more.
  db_.execute(Sql("UPDATE provider_overrides SET ends_at=UTC_TIMESTAMP(6)"));
  EXPECT_THAT(orders(worker).breakers, IsEmpty());
  EXPECT_THAT(Situations(doors_).look()->overrides, IsEmpty());
  EXPECT_EQ(code_of(switches.clear_override("b")), FaultCode::kNoOverride);
  ASSERT_TRUE(switches.override_breaker("c", true, seconds(60), said_));
  EXPECT_EQ(db_.number(Sql("SELECT COUNT(*) FROM provider_overrides")), 1) << "old ones go";
  EXPECT_THAT(noted("test"), ElementsAre(1));
}

TEST_F(SwitchesTest, TheIntakeIsPausedAndResumed) {
  Switches switches(doors_);
  EXPECT_FALSE(*switches.intake());
  EXPECT_EQ(code_of(switches.resume_intake()), FaultCode::kIntakeOpen);
  Probe probe(db_.url(), Probe::Watches::kIntakeToo), schema_only(db_.url());
  ASSERT_TRUE(test::eventually(seconds(30), [&] { return probe.ok() && schema_only.ok(); }));
  EXPECT_FALSE(probe.intake_paused());

  const ActionNote pause = note();
  ASSERT_TRUE(Switches(doors_, &pause).pause_intake(said_));
  const auto paused = *switches.intake();
  ASSERT_TRUE(paused);
  EXPECT_EQ(paused->by, "ann@host");
  EXPECT_EQ(paused->reason, "it \"moves\"");
  EXPECT_EQ(Situations(doors_).look()->intake_paused->reason, paused->reason);
  EXPECT_EQ(code_of(switches.pause_intake(said_)), FaultCode::kIntakePaused);
  EXPECT_TRUE(test::eventually(seconds(30), [&] { return probe.intake_paused(); }));
  EXPECT_FALSE(schema_only.intake_paused());

  // What is not known stays as it was.
  db_.execute(Sql("RENAME TABLE service_switches TO switches_away"));
  ASSERT_TRUE(test::eventually(seconds(30), [&] { return !probe.ok(); }));
  EXPECT_TRUE(probe.intake_paused());
  db_.execute(Sql("RENAME TABLE switches_away TO service_switches"));
  ASSERT_TRUE(test::eventually(seconds(30), [&] { return probe.ok(); }));

  const ActionNote resume = note();
  ASSERT_TRUE(Switches(doors_, &resume).resume_intake());
  EXPECT_TRUE(test::eventually(seconds(30), [&] { return !probe.intake_paused(); }));
  EXPECT_FALSE(Situations(doors_).look()->intake_paused);
  EXPECT_THAT(noted("test"), ElementsAre(1, 1));
}

TEST_F(SwitchesTest, AKeyIsFoundByItsPrefix) {
  const UserId user = make_user("a@b");
  const auto key = keys_.add(user, {.name = "k"}, make_api_key("svc"));
  ASSERT_TRUE(key);
  EXPECT_EQ(*keys_.resolve(key->id.text()), key->id);
  EXPECT_EQ(*keys_.resolve(key->prefix), key->id);
  EXPECT_EQ(code_of(keys_.resolve("svc_live_zzzz")), FaultCode::kNoSuchKey);
  const auto twin = keys_.add(user, {.name = "k"}, make_api_key("svc"));
  ASSERT_TRUE(twin);
  db_.execute(Sql("UPDATE api_keys k JOIN api_keys o ON o.id=")
              << key->id << " SET k.prefix=o.prefix WHERE k.id=" << twin->id);
  EXPECT_EQ(code_of(keys_.resolve(key->prefix)), FaultCode::kAmbiguousKey);
  ASSERT_TRUE(keys_.remove(twin->id));
  EXPECT_EQ(*keys_.resolve(key->prefix), key->id) << "of those that work";
}

// As each program's user.
TEST_F(SwitchesTest, ApiAndAdminMayAndTheWorkerReads) {
  const WorkerId worker = WorkerId::make();
  TaskStore of_worker(db_.as("worker"));
  ASSERT_TRUE(of_worker.report_worker(worker, "h", 1, {}));
  for (const char* const role : {"api", "admin"}) {
    Session session(db_.as(role));
    const ActionNote all[] = {note(), note(), note(), note(), note()};
    EXPECT_TRUE(Switches(session, &all[0]).drain_worker(worker)) << role;
    EXPECT_TRUE(Switches(session, &all[1]).override_breaker("p", true, seconds(60), said_)) << role;
    EXPECT_TRUE(Switches(session, &all[2]).clear_override("p")) << role;
    EXPECT_TRUE(Switches(session, &all[3]).pause_intake(said_)) << role;
    EXPECT_TRUE(Situations(session).look()) << role;
    EXPECT_TRUE(Switches(session, &all[4]).resume_intake()) << role;
    EXPECT_TRUE(Operators(session).list_actions(5)) << role;
    EXPECT_ANY_THROW(session.execute(Sql("DELETE FROM admin_actions"))) << role;
  }
  EXPECT_TRUE(of_worker.report_worker(worker, "h", 1, {})->drain);
  Session session(db_.as("worker"));
  EXPECT_ANY_THROW(session.execute(Sql("DELETE FROM provider_overrides")));
  EXPECT_ANY_THROW(session.execute(Sql("DELETE FROM service_switches")));
}

}  // namespace
}  // namespace audiogen::store
