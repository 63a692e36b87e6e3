// What happened to one task, in lanes.
#include "api/operators/task_story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

namespace audiogen::api {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

const Instant kBegin(std::chrono::hours(500'000));

store::TaskDetail detail() {
  store::TaskDetail out;
  out.task.view.id = TaskId::make();
  out.task.view.created_at = out.task.view.updated_at = kBegin;
  out.task.request_id = "req_1";
  out.task.next_run_at = kBegin;
  out.task.deadline_at = kBegin + seconds(900);
  out.ledger.push_back(
      {.seq = 1, .kind = EntryKind::kHold, .d_held = Units{150'000}, .created_at = kBegin});
  return out;
}

std::vector<std::string> told(const store::TaskDetail& of, bool all = true) {
  std::vector<std::string> out;
  for (const StoryEvent& event : story_of(of)) {
    if (all || !event.inferred) {
      out.push_back(std::string(event.lane) + ": " + event.what +
                    (event.detail ? ", " + *event.detail : "") + (event.worker ? " !" : ""));
    }
  }
  return out;
}

TEST(Story, OfATaskThatWaits) {
  EXPECT_THAT(told(detail()),
              ElementsAre("client: asked for, request req_1",
                          "money: created, 150 reserved",
                          "queue: ready for workers",
                          "queue: due",
                          "api: deadline"));
}

TEST(Story, OfATaskThatWasTriedAgain) {
  auto task = detail();
  task.task.view.state = TaskState::kSucceeded;
  task.task.view.updated_at = kBegin + seconds(30);
  task.calls = {{.n = 1,
                 .epoch = 1,
                 .provider = "a",
                 .state = store::kCallFailed,
                 .detail = "busy",
                 .started_at = kBegin + seconds(1),
                 .ended_at = kBegin + seconds(2)},
                {.n = 2,
                 .epoch = 3,
                 .provider = "b",
                 .state = store::kCallSucceeded,
                 .started_at = kBegin + seconds(10),
                 .ended_at = kBegin + seconds(30)}};
  task.ledger.push_back({.seq = 2,
                         .kind = EntryKind::kResolve,
                         .d_available = Units{140'000},
                         .d_held = Units{-150'000},
                         .d_system = Units{10'000},
                         .created_at = kBegin + seconds(30)});
  EXPECT_THAT(told(task),
              ElementsAre("client: asked for, request req_1",
                          "money: created, 150 reserved",
                          "queue: ready for workers",
                          "worker: claimed (epoch 1)",
                          "provider: call 1 to a started",
                          "provider: call 1 to a: failed, busy",
                          "queue: put back",
                          "worker: claimed (epoch 3)",
                          "provider: call 2 to b started",
                          "provider: call 2 to b: succeeded",
                          "money: succeeded, 10 charged, 140 returned"));
  EXPECT_THAT(told(task, false),
              ElementsAre("money: created, 150 reserved",
                          "provider: call 1 to a started",
                          "provider: call 1 to a: failed, busy",
                          "provider: call 2 to b started",
                          "provider: call 2 to b: succeeded",
                          "money: succeeded, 10 charged, 140 returned"))
      << "as the command has it";
}

// Claims that called nobody were not told of, nor whose any had been.
TEST(Story, OfATaskThatOthersHadBefore) {
  auto task = detail();
  task.task.view.state = TaskState::kSucceeded;
  task.task.view.updated_at = kBegin + seconds(80);
  task.calls = {{.n = 1,
                 .epoch = 5,
                 .provider = "a",
                 .state = store::kCallSucceeded,
                 .started_at = kBegin + seconds(70),
                 .ended_at = kBegin + seconds(80)}};
  task.claims = {{.epoch = 1,
                  .worker = WorkerId::make(),
                  .claimed_at = kBegin + seconds(1),
                  .ended_at = kBegin + seconds(31),
                  .ended_as = store::ClaimEndedAs::kTakenAway},
                 {.epoch = 3,
                  .worker = WorkerId::make(),
                  .claimed_at = kBegin + seconds(40),
                  .ended_at = kBegin + seconds(41),
                  .ended_as = store::ClaimEndedAs::kGivenBack}};
  EXPECT_THAT(told(task),
              ElementsAre("client: asked for, request req_1",
                          "money: created, 150 reserved",
                          "queue: ready for workers",
                          "worker: claimed (epoch 1) !",
                          "queue: put back, taken away: not renewed, or out of time",
                          "worker: claimed (epoch 3) !",
                          "queue: put back, given back",
                          "worker: claimed (epoch 5)",
                          "provider: call 1 to a started",
                          "provider: call 1 to a: succeeded"));
  rapidjson::Document json;
  json.Parse(task_json(task).c_str());
  EXPECT_EQ(json["past_claims"][1]["worker"].GetString(), task.claims[1].worker.text());
  EXPECT_STREQ(json["past_claims"][1]["ended_as"].GetString(), "given back");
}

TEST(Story, OfATaskThatEndedAfterItHadBeenGivenBack) {
  auto task = detail();
  task.task.view.state = TaskState::kCanceled;
  task.task.view.updated_at = kBegin + seconds(80);
  task.claims = {{.epoch = 1,
                  .worker = WorkerId::make(),
                  .claimed_at = kBegin + seconds(1),
                  .ended_at = kBegin + seconds(2),
                  .ended_as = store::ClaimEndedAs::kGivenBack}};
  EXPECT_THAT(told(task),
              ElementsAre("client: asked for, request req_1",
                          "money: created, 150 reserved",
                          "queue: ready for workers",
                          "worker: claimed (epoch 1) !",
                          "queue: put back, given back",
                          "client: canceled"));
}

// Its worker had been lost, and nothing said so.
TEST(Story, OfATaskWhoseTimeEndedWithItsLastClaim) {
  auto task = detail();
  task.task.view.state = TaskState::kFailed;
  task.task.view.updated_at = kBegin + seconds(900);
  task.claims = {{.epoch = 1,
                  .worker = WorkerId::make(),
                  .claimed_at = kBegin + seconds(1),
                  .ended_at = kBegin + seconds(900),
                  .ended_as = store::ClaimEndedAs::kTakenAway}};
  EXPECT_THAT(told(task),
              ElementsAre("client: asked for, request req_1",
                          "money: created, 150 reserved",
                          "queue: ready for workers",
                          "worker: claimed (epoch 1) !",
                          "worker: claim ended, taken away: not renewed, or out of time !"));
}

TEST(Story, OfATaskThatIsWorkedOn) {
  auto task = detail();
  task.task.view.state = TaskState::kRunning;
  task.task.view.updated_at = kBegin + seconds(1);
  task.task.epoch = 1;
  task.task.worker = WorkerId::make();
  task.task.lease_until = kBegin + seconds(31);
  EXPECT_THAT(told(task),
              ElementsAre("client: asked for, request req_1",
                          "money: created, 150 reserved",
                          "queue: ready for workers",
                          "worker: claimed (epoch 1) !",
                          "worker: lease ends unless renewed !",
                          "api: deadline"));
  rapidjson::Document json;
  json.Parse(story_json(task).c_str());
  ASSERT_TRUE(json.IsObject());
  EXPECT_EQ(json["task"]["id"].GetString(), task.task.view.id.text());
  EXPECT_STREQ(json["events"][0]["at"].GetString(), "2027-01-15T08:00:00.000Z");
  EXPECT_TRUE(json["events"][1]["worker"].IsNull());
  EXPECT_EQ(json["events"][3]["worker"].GetString(), task.task.worker->text());
}

TEST(Story, OfATaskThatWasCanceledWhileParked) {
  auto task = detail();
  task.task.view.state = TaskState::kCanceled;
  task.task.view.lane = Lane::kParked;
  task.task.view.updated_at = kBegin + seconds(9);
  EXPECT_THAT(told(task),
              ElementsAre("client: asked for, request req_1",
                          "money: created, 150 reserved",
                          "queue: parked behind others of its user",
                          "client: canceled"));
}

}  // namespace
}  // namespace audiogen::api
