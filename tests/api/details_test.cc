// What an owner is told of a generation, at once or as it happens: the text, and when it is known.
#include "api/generations/details.h"

#include <atomic>
#include <limits>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/generations/event_stream.h"
#include "api/generations/lookout.h"
#include "tests/support/wait.h"

namespace audiogen::api {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::HasSubstr;
using testing::Not;
using End = store::CallEntry::End;

const Instant kBegin = *parse_iso("2026-11-20T23:10:32.123Z");

TaskView task_in(TaskState state, std::uint32_t epoch) {
  TaskView out;
  out.id = *TaskId::parse("aud_01k9hsx7v3fzq8n5m2r4t6w9yb");
  out.state = state;
  out.epoch = epoch;
  out.created_at = kBegin;
  out.updated_at = out.next_run_at = kBegin + 5s;
  out.held = kHoldAmount;
  return out;
}

store::TaskDetails details_of(TaskView task) {
  store::TaskDetails out{.view = std::move(task), .deadline_at = kBegin + 15min};
  GenerationRequest request;
  request.prompt = "Line\n\"two\"";
  request.audio_references = {"https://ann:secret@media.example.com/a.mp3?token=t0ken",
                              "https://media.example.com/b.mp3"};
  request.speed = 0.9;
  request.metadata = {{"order", "4711"}};
  out.request = encode_request(request);
  return out;
}

TEST(Details, TellWhatWasAskedForWithoutAddresses) {
  const std::string text = render_details(details_of(task_in(TaskState::kQueued, 0)),
                                          {.waiting_on = WaitingOn::kCapacity,
                                           .position = 3,
                                           .start_in = Spread{1'449ms, 2s},
                                           .done_in = Spread{1'450ms, 61'050ms}});
  EXPECT_THAT(
      text,
      HasSubstr(
          R"("request":{"prompt":"Line\u000a\"two\"","voice":null,"output_format":"mp3","sample_rate":24000,)"
          R"("speed":0.9,"volume":1,"pitch":0,"max_credits":150,"metadata":{"order":"4711"},)"
          R"("references":[{"param":"audio_references[0]","kind":"audio"},{"param":"audio_references[1]","kind":"audio"}]},)"
          R"("key_id":null,"waiting_on":"capacity","position":3,"start_in_seconds":{"p50":1.4,"p90":2},)"
          R"("done_in_seconds":{"p50":1.5,"p90":61.1},"settled_by":"2026-11-20T23:25:32.123Z","attempts":0,)"
          R"("timeline":[{"type":"created","at":"2026-11-20T23:10:32.123Z"}],"ledger":[]})"));
  EXPECT_THAT(text, Not(HasSubstr("media.example.com")));
  EXPECT_THAT(text, Not(HasSubstr("t0ken")));
}

// Whatever is accepted, however near to nothing.
TEST(Details, TellNumbersWithoutAnExponent) {
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  constexpr double kLongest = -std::numeric_limits<double>::min();
  for (const auto& [pitch, text] :
       {std::pair(5.55e-17, "0.0000000000000000555"s),
        std::pair(-0.0001, "-0.0001"s),
        std::pair(12.0, "12"s),
        std::pair(kLeast, "0." + std::string(323, '0') + "5"),
        std::pair(kLongest, "-0." + std::string(307, '0') + "22250738585072014")}) {
    GenerationRequest request;
    request.prompt = "High.";
    request.pitch = pitch;
    store::TaskDetails details = details_of(task_in(TaskState::kQueued, 0));
    details.request = encode_request(request);
    EXPECT_THAT(render_details(details, {}), HasSubstr("\"pitch\":" + text + ",")) << pitch;
  }
}

TEST(Details, TellHowItWentAndWhy) {
  auto details = details_of(task_in(TaskState::kFailed, 4));
  details.view.failure = FailureCode::kReferenceUnavailable;
  details.view.failure_message = "audio_references[0] cannot be used.";
  details.request.clear();
  details.deleted_at = kBegin + 1h;
  details.key = *KeyId::parse("key_01k9hq2m4c7p9s1v3x5z7b9d1f");
  details.calls = 5;
  std::uint32_t n = 0;
  for (const End end :
       {End::kInterrupted, End::kFailed, End::kNotBegun, End::kSucceeded, End::kNone}) {
    details.timeline.push_back({.n = ++n, .end = end, .started_at = kBegin + 1s});
    if (end != End::kNone) {
      details.timeline.back().ended_at = kBegin + 2s;
    }
  }
  details.timeline[1].why = CallFailure::kBusy;
  const std::string text = render_details(details, {});
  EXPECT_THAT(text,
              HasSubstr(R"("outcome":"failed","message":"Whoever was asked had no room for it.")"));
  EXPECT_THAT(text, HasSubstr(R"("request":null,"key_id":"key_01k9hq2m4c7p9s1v3x5z7b9d1f",)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"("waiting_on":null,"position":null,"start_in_seconds":null,"done_in_seconds":null,"settled_by":null,"attempts":5,)"));
  for (const char* const outcome : {"interrupted", "failed", "not_begun", "succeeded"}) {
    EXPECT_THAT(text,
                HasSubstr(R"("ended_at":"2026-11-20T23:10:34.123Z","outcome":")" +
                          std::string(outcome) + "\""));
  }
  EXPECT_THAT(text, HasSubstr(R"("number":5,"ended_at":null,"outcome":"running")"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"({"type":"failed","at":"2026-11-20T23:10:37.123Z","code":"reference_unavailable","message":"audio_references[0] cannot be used."},)"
          R"({"type":"deleted","at":"2026-11-21T00:10:32.123Z"}])"));
}

// Whatever was written to the row since.
TEST(Details, SayThatItEndedWhenItWasSettled) {
  auto details = details_of(task_in(TaskState::kSucceeded, 1));
  for (const auto& [kind, after] : {std::pair(EntryKind::kHold, 0s), {EntryKind::kResolve, 5s}}) {
    store::LedgerEntry& row = details.ledger.emplace_back();
    row.entry.kind = kind;
    row.created_at = kBegin + after;
  }
  details.view.updated_at = kBegin + std::chrono::days(30);
  EXPECT_THAT(render_details(details, {}),
              HasSubstr(R"({"type":"succeeded","at":"2026-11-20T23:10:37.123Z"}],"ledger":)"));
}

TEST(Events, IdsGrowAndTellAllThatCanBeSeenApart) {
  // Created, claimed, put back, claimed; then the end, by whoever held it or by somebody else.
  std::uint64_t last = 0;
  for (const auto& [state, epoch] : {std::pair(TaskState::kRunning, 1U),
                                     std::pair(TaskState::kQueued, 2U),
                                     std::pair(TaskState::kRunning, 3U),
                                     std::pair(TaskState::kSucceeded, 3U),
                                     std::pair(TaskState::kCanceled, 4U)}) {
    const std::uint64_t id = event_id(task_in(state, epoch));
    EXPECT_GT(id, last);
    last = id;
    EXPECT_EQ(parse_event_id(std::to_string(id)), id);
  }
  EXPECT_EQ(event_id(task_in(TaskState::kQueued, 0)), 0u);
  for (const char* const other : {"", "x", "1x", "-1", " 1", "18446744073709551616"}) {
    EXPECT_EQ(parse_event_id(other), std::nullopt) << other;
  }
}

TEST(Events, AreLinesThatEndWithAnEmptyOne) {
  const WireNames names{.model = "svc-audio-1.0", .cdn_url = "https://cdn.test/files"};
  const TaskView task = task_in(TaskState::kRunning, 1);
  EXPECT_EQ(status_event(task, names),
            "id: 1\nevent: status\ndata: " + render_task(task, names, Members::kAll) + "\n\n");
  EXPECT_EQ(progress_event({.waiting_on = WaitingOn::kProvider, .done_in = Spread{3s, 8s}}),
            "event: progress\ndata: {\"waiting_on\":\"provider\",\"position\":null,"
            "\"start_in_seconds\":null,\"done_in_seconds\":{\"p50\":3,\"p90\":8}}\n\n");
}

// A thread looks, and whoever asks gets what it saw last.
TEST(Lookout, LooksForAHundredthOfTheTimeAtMost) {
  const Lookout::Options options;
  EXPECT_EQ(Lookout::rest_after(1ms, options), options.asked);
  EXPECT_EQ(Lookout::rest_after(50ms, options), 5s);
  EXPECT_EQ(Lookout::rest_after(4s, options), options.kept / 3);
}

TEST(Lookout, TellsWhatWasSeenAndNotForTooLong) {
  std::atomic<int> looks{0};
  std::atomic<bool> away{false};
  const auto make = [&]() -> Lookout::Look {
    return [&]() -> std::optional<QueueSample> {
      ++looks;
      if (away) {
        return std::nullopt;
      }
      const auto now =
          std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
      return QueueSample{.at = now, .starts = {{.created = now - 3s, .began = now - 1s}}};
    };
  };
  {
    const Lookout lookout(make, {.asked = 5ms, .unasked = 50ms, .kept = 60s});
    EXPECT_TRUE(test::eventually(60s, [&] {
      return lookout.start_in(Lane::kBulk) == Spread{2s, 2s};
    }));
    TaskView due = task_in(TaskState::kQueued, 0);
    due.next_run_at = {};
    EXPECT_EQ(lookout.of(due).start_in, (Spread{2s, 2s}));
  }
  const Lookout lookout(make, {.asked = 5ms, .unasked = 50ms, .kept = 300ms});
  EXPECT_TRUE(test::eventually(60s, [&] { return lookout.start_in(Lane::kBulk).has_value(); }));
  away = true;
  EXPECT_TRUE(test::eventually(60s, [&] { return !lookout.start_in(Lane::kBulk); }));
  EXPECT_EQ(lookout.of(task_in(TaskState::kRunning, 1)).waiting_on, WaitingOn::kProvider);
  away = false;
  EXPECT_TRUE(test::eventually(60s, [&] { return lookout.start_in(Lane::kBulk).has_value(); }));
  // Also while nobody asks.
  const int seen = looks;
  EXPECT_TRUE(test::eventually(60s, [&] { return looks > seen + 3; }));
}

EventFeed::Time at(std::chrono::milliseconds since_begin) {
  return EventFeed::Time(1h) + since_begin;
}

TEST(EventFeed, SaysWhatChangedAtOnceAndThatItLivesBySilence) {
  const WireNames names{.model = "svc-audio-1.0", .cdn_url = "https://cdn.example.com"};
  Prospect prospect;
  int asked = 0;
  const auto prospect_of = [&](const TaskView&) {
    ++asked;
    return prospect;
  };
  EventFeed feed(std::nullopt, at(0s));
  const auto say = [&](const TaskView& task, std::chrono::milliseconds time) {
    return feed.say(task, names, prospect_of, at(time));
  };
  const TaskView queued = task_in(TaskState::kQueued, 0);
  const std::string first = say(queued, 0s);
  EXPECT_TRUE(first.starts_with(kStreamBegin)) << first;
  EXPECT_THAT(first, HasSubstr("event: status"));
  EXPECT_THAT(first, HasSubstr("event: progress"));
  EXPECT_EQ(feed.due_at(), at(kProgressEvery));
  EXPECT_EQ(say(queued, 1'999ms), "");  // Nothing changed, and it is not asked either.
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(say(queued, 2s), "");  // It goes as it went.
  EXPECT_EQ(asked, 2);
  prospect.position = 7;
  EXPECT_THAT(say(queued, 4s), HasSubstr("event: progress"));
  EXPECT_EQ(say(queued, 18'999ms), "");
  EXPECT_EQ(say(queued, 19s), kStreamComment);  // Fifteen seconds after it spoke last.
  const std::string last = say(task_in(TaskState::kSucceeded, 1), 20s);
  EXPECT_THAT(last, HasSubstr("event: status"));
  EXPECT_THAT(last, Not(HasSubstr("event: progress")));
}

TEST(EventFeed, SaysNothingAnewToWhoHasSeenIt) {
  const WireNames names{.model = "svc-audio-1.0", .cdn_url = "https://cdn.example.com"};
  const TaskView running = task_in(TaskState::kRunning, 3);
  EventFeed feed(event_id(running), at(0s));
  EXPECT_THAT(feed.say(
                  running, names, [](const TaskView&) { return Prospect(); }, at(0s)),
              Not(HasSubstr("event: status")));
}

}  // namespace
}  // namespace audiogen::api
