// The door of a user's history on a real server: order, pages, filters, and what a page costs.
#include "common/store/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/domain/outlook.h"
#include "tests/store/task_fixture.h"

namespace audiogen::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class HistoryTest : public TaskStoreTest {
 protected:
  using Ids = std::vector<TaskId>;

  // `count` tasks of `user`, in the order of the list's end.
  Ids create_many(UserId user, std::size_t count) {
    constexpr std::size_t kBatch = 100;
    Ids ids;
    while (ids.size() < count) {
      std::vector<CreateCommand> commands;
      for (std::size_t i = 0; i < std::min(kBatch, count - ids.size()); ++i) {
        commands.push_back(create_command(user));
      }
      must(store_.create(commands));
      for (const CreateCommand& command : commands) {
        ids.push_back(command.id);
      }
    }
    return ids;
  }

  HistoryPage page(UserId user,
                   const HistoryFilter& filter = {},
                   std::optional<std::uint64_t> before = std::nullopt,
                   std::size_t limit = 100) {
    auto found = history_.list(user, filter, before, limit);
    if (!found) {
      ADD_FAILURE() << found.error().detail;
      return {};
    }
    return *std::move(found);
  }
  static Ids ids_of(const HistoryPage& page) {
    Ids out;
    for (const auto& item : page.items) {
      out.push_back(item.view.id);
    }
    return out;
  }
  // All pages.
  Ids all(UserId user,
          const HistoryFilter& filter,
          std::size_t limit,
          std::size_t* pages = nullptr) {
    Ids out;
    std::optional<std::uint64_t> before;
    std::size_t count = 0;
    do {
      const HistoryPage part = page(user, filter, before, limit);
      EXPECT_LE(part.items.size(), limit);
      for (const auto& item : part.items) {
        out.push_back(item.view.id);
      }
      before = part.next;
      ++count;
    } while (before && count < 1'000);
    if (pages != nullptr) {
      *pages = count;
    }
    return out;
  }

  Session session_{db_.url()};
  History history_{session_};
};

TEST_F(HistoryTest, NewestFirstPageByPageAndOnlyHisOwn) {
  const UserId user = db_.add_user(), other = db_.add_user(), nobody = UserId::make();
  Ids ids = create_many(user, 7);
  create_many(other, 3);
  EXPECT_EQ(settle(settle_command(Settle::kSucceed, *claim(ids[2]))), SettleOutcome::kSettled);
  must(store_.cancel(ids[4]));
  std::reverse(ids.begin(), ids.end());
  for (const std::size_t limit : {1U, 2U, 3U, 6U, 7U, 8U}) {
    EXPECT_EQ(all(user, {}, limit), ids) << limit;
  }
  EXPECT_FALSE(page(user, {}, std::nullopt, 7).next) << "nothing is left";
  EXPECT_THAT(all(other, {}, 100), SizeIs(3));
  EXPECT_THAT(all(nobody, {}, 100), IsEmpty());
  EXPECT_THAT(all(db_.add_user(), {}, 100), IsEmpty()) << "a grant is no task";
  const HistoryPage first = page(user);
  EXPECT_EQ(first.items.front().request, create_command(user).request);
  EXPECT_EQ(first.items[4].view.state, TaskState::kSucceeded);
  EXPECT_EQ(first.items[4].view.charged, credits(75));
}

// What is added at the front moves nothing of a list that somebody is reading.
TEST_F(HistoryTest, ACursorIsAPlace) {
  const UserId user = db_.add_user();
  const Ids ids = create_many(user, 4);
  const HistoryPage first = page(user, {}, std::nullopt, 2);
  create_many(user, 3);
  must(store_.cancel(ids[0]));
  EXPECT_THAT(ids_of(page(user, {}, first.next)), ElementsAre(ids[1], ids[0]));
  // Places that nobody was given: nothing more than with others.
  EXPECT_THAT(page(user, {}, 0).items, IsEmpty());
  EXPECT_THAT(page(user, {}, 1).items, IsEmpty());
  EXPECT_THAT(page(user, {}, ~std::uint64_t{0}).items, SizeIs(7));
}

TEST_F(HistoryTest, ByStatusAsClientsSeeIt) {
  const UserId user = db_.add_user();
  const Ids ids = create_many(user, 6);
  EXPECT_TRUE(claim(ids[1]));  // processing
  EXPECT_EQ(settle(settle_command(Settle::kRetry, *claim(ids[2]))), SettleOutcome::kRequeued);
  EXPECT_EQ(settle(settle_command(Settle::kSucceed, *claim(ids[3]))), SettleOutcome::kSettled);
  EXPECT_EQ(settle(settle_command(Settle::kFail, *claim(ids[4]))), SettleOutcome::kSettled);
  must(store_.cancel(ids[5]));
  EXPECT_THAT(all(user, {.status = "processing"}, 9), ElementsAre(ids[1], ids[0]));
  EXPECT_THAT(all(user, {.status = "queued"}, 9), ElementsAre(ids[2]));
  EXPECT_THAT(all(user, {.status = "succeeded"}, 9), ElementsAre(ids[3]));
  EXPECT_THAT(all(user, {.status = "failed"}, 9), ElementsAre(ids[4]));
  EXPECT_THAT(all(user, {.status = "canceled"}, 9), ElementsAre(ids[5]));
  // Each is in exactly the list of its status.
  for (const std::string_view status : kPublicStatuses) {
    for (const auto& item : page(user, {.status = std::string(status)}).items) {
      EXPECT_EQ(public_status(item.view.state, item.view.claims), status);
    }
  }
}

TEST_F(HistoryTest, ByTimeTheFirstIsInAndTheLastIsOut) {
  const UserId user = db_.add_user();
  const Ids ids = create_many(user, 100);
  // One a minute, the grant before them.
  db_.execute(Sql("UPDATE ledger SET created_at='2026-01-01' + INTERVAL seq MINUTE"));
  db_.execute(
      Sql("UPDATE tasks t JOIN ledger l ON l.source_id=t.id SET t.created_at=l.created_at"));
  const auto at = [](int minute) {
    using namespace std::chrono_literals;
    return Instant(std::chrono::sys_days(2026y / 1 / 1)) + std::chrono::minutes(minute);
  };
  const auto count = [&](std::optional<Instant> after, std::optional<Instant> before) {
    return all(user, {.created_after = after, .created_before = before}, 30).size();
  };
  // Task i was created in minute i + 2.
  EXPECT_EQ(count(at(2), {}), 100U);
  EXPECT_EQ(count(at(3), {}), 99U);
  EXPECT_EQ(count({}, at(101)), 99U);
  EXPECT_EQ(count({}, at(102)), 100U);
  EXPECT_EQ(count(at(50), at(51)), 1U);
  EXPECT_EQ(count(at(10), at(90)), 80U);
  EXPECT_EQ(count(at(1000), {}), 0U);
  EXPECT_EQ(count({}, at(0)), 0U);
  EXPECT_THAT(all(user, {.created_after = at(50), .created_before = at(51)}, 9),
              ElementsAre(ids[48]));
}

// A filter that little passes: pages are short, and lead to the end. With a time there is no page
// that is only on its way there.
TEST_F(HistoryTest, APageLooksAtABoundedPartOfALongHistory) {
  const UserId user = db_.add_user();
  const Ids ids = create_many(user, 2 * kHistoryRowsMax + 100);
  must(store_.cancel(ids[0]));
  db_.execute(Sql("UPDATE ledger SET created_at='2026-01-01' + INTERVAL seq MINUTE"));
  std::size_t pages = 0;
  EXPECT_THAT(all(user, {.status = "canceled"}, 20, &pages), ElementsAre(ids[0]));
  EXPECT_EQ(pages, 3U);
  using namespace std::chrono_literals;
  const Instant begin(std::chrono::sys_days(2026y / 1 / 1));
  EXPECT_THAT(all(user, {.status = "canceled", .created_before = begin + 1h}, 20, &pages),
              ElementsAre(ids[0]));
  EXPECT_EQ(pages, 1U) << "the way to a time long ago";
  EXPECT_THAT(all(user, {.status = "canceled", .created_after = begin + 4'000min}, 20, &pages),
              IsEmpty());
  EXPECT_EQ(pages, 1U) << "nothing is older than what was asked for";
  // What the server reads for it: a range of the ledger's primary key, and rows of tasks by theirs.
  const auto so_far = [&] {
    Rows rows = session_.query(Sql("SHOW SESSION STATUS LIKE 'Handler_read_%'"));
    std::int64_t sum = 0;
    while (rows.next()) {
      sum += rows.text(1).find("_rnd") == std::string::npos ? rows.i64(2) : 0;
    }
    return sum;
  };
  const auto reads = [&](const HistoryFilter& filter, std::size_t limit) {
    const auto before = so_far();
    page(user, filter, std::nullopt, limit);
    return so_far() - before;
  };
  EXPECT_LT(reads({}, 20), 100) << "not the whole history";
  EXPECT_LT(reads({.status = "failed"}, 20), 2 * static_cast<int>(kHistoryRowsMax) + 100);
}

TEST_F(HistoryTest, APageOfLongTextsIsShort) {
  const UserId user = db_.add_user();
  for (int i = 0; i < 60; ++i) {
    CreateCommand command = create_command(user);
    command.request = std::string(10'000, 'x');
    must(store_.create({&command, 1}));
  }
  const HistoryPage first = page(user);
  EXPECT_LT(first.items.size(), 30U);
  EXPECT_TRUE(first.next);
  EXPECT_THAT(all(user, {}, 100), SizeIs(60));
}

TEST_F(HistoryTest, RowsThatOthersHoldAreInNobodysWay) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  RowHolder balance(db_.url(), balance_of(user)), row(db_.url(), row_of_task(task));
  EXPECT_THAT(ids_of(page(user)), ElementsAre(task));
}

TEST_F(HistoryTest, WhatIsDeletedLosesWhatWasAskedForAndKeepsItsPrice) {
  const UserId user = db_.add_user(), other = db_.add_user();
  const TaskId done = create(user), open = create(user), canceled = create(user);
  EXPECT_EQ(settle(settle_command(Settle::kSucceed, *claim(done))), SettleOutcome::kSettled);
  must(store_.cancel(canceled));
  const auto erase = [&](UserId whose, TaskId task) {
    const auto erased = history_.erase(whose, task);
    EXPECT_TRUE(erased);
    return erased ? *erased : Erasure::kNotFound;
  };
  EXPECT_EQ(erase(other, done), Erasure::kNotFound);
  EXPECT_EQ(erase(user, TaskId::make()), Erasure::kNotFound);
  EXPECT_EQ(erase(user, open), Erasure::kNotFinal);
  const auto before = find(done, user);
  EXPECT_EQ(erase(user, done), Erasure::kErased);
  EXPECT_EQ(erase(user, canceled), Erasure::kErased);
  const auto after = find(done, user);
  ASSERT_TRUE(after && after->output_deleted_at);
  EXPECT_EQ(after->charged, before->charged);
  EXPECT_EQ(after->updated_at, before->updated_at);
  EXPECT_FALSE(find(canceled, user)->output_deleted_at) << "it never had a file";
  const HistoryPage page_now = page(user);
  ASSERT_THAT(page_now.items, SizeIs(3));
  EXPECT_EQ(page_now.items[0].request, "");
  EXPECT_NE(page_now.items[1].request, "");
  EXPECT_EQ(page_now.items[2].request, "");
  // Once more changes nothing, not even when.
  EXPECT_EQ(erase(user, done), Erasure::kErased);
  EXPECT_EQ(find(done, user)->output_deleted_at, after->output_deleted_at);
  EXPECT_THAT(must(store_.deletions(Noted::kDeleted, {}, 10)), SizeIs(2));
}

TEST_F(HistoryTest, ADeletionWaitsForNobody) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  must(store_.cancel(task));
  RowHolder holder(db_.url(), row_of_task(task));
  const auto refused = history_.erase(user, task);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, FaultCode::kLocked);
  holder.release();
  EXPECT_TRUE(history_.erase(user, task));
  RowHolder again(db_.url(), row_of_task(task));
  EXPECT_TRUE(history_.erase(user, task)) << "nothing is left to do";
}

// --- all there is about one

class DetailsTest : public HistoryTest {
 protected:
  using End = CallEntry::End;

  TaskDetails details(UserId user, TaskId task) {
    auto found = history_.details(user, task);
    if (!found || !*found) {
      ADD_FAILURE() << (found ? "not there" : found.error().detail);
      return {};
    }
    return **std::move(found);
  }
  static std::vector<std::pair<std::uint32_t, End>> ends_of(const TaskDetails& details) {
    std::vector<std::pair<std::uint32_t, End>> out;
    for (const CallEntry& call : details.timeline) {
      EXPECT_EQ(call.ended_at.has_value(), call.end != End::kNone);
      out.emplace_back(call.n, call.end);
    }
    return out;
  }
  // Claims it, and ends its call so.
  void call(TaskId task, std::uint32_t epoch, std::uint8_t state, std::string detail) {
    make_due(task);
    const auto claimed = claim(task, epoch);
    ASSERT_TRUE(claimed);
    SettleCommand command = settle_command(Settle::kRelease, *claimed);
    command.call = claimed->calls + 1;
    command.call_state = state;
    command.call_detail = std::move(detail);
    command.retry_after = 1h;
    EXPECT_EQ(settle(command), SettleOutcome::kRequeued);
  }
};

TEST_F(DetailsTest, AreOfHisOwnTasksAlone) {
  const UserId user = db_.add_user(), other = db_.add_user();
  const TaskId task = create(user);
  EXPECT_EQ(details(user, task).view.id, task);
  for (const auto& [who, what] : {std::pair(other, task), std::pair(user, TaskId::make())}) {
    const auto found = history_.details(who, what);
    ASSERT_TRUE(found);
    EXPECT_FALSE(*found);
  }
}

TEST_F(DetailsTest, BeginWithTheHold) {
  const UserId user = db_.add_user();
  CreateCommand command = create_command(user);
  command.key = KeyId::make();
  command.deadline = 900s;
  create(command);
  const TaskDetails open = details(user, command.id);
  EXPECT_EQ(open.request, command.request);
  EXPECT_EQ(open.key, command.key);
  EXPECT_EQ(open.deadline_at, open.view.created_at + 900s);
  EXPECT_EQ(open.view.next_run_at, open.view.created_at);
  EXPECT_EQ(open.calls, 0u);
  EXPECT_THAT(open.timeline, IsEmpty());
  ASSERT_THAT(open.ledger, SizeIs(1));
  EXPECT_EQ(open.ledger[0].entry.kind, EntryKind::kHold);
  EXPECT_EQ(open.ledger[0].entry.d_held, kHoldAmount);
  EXPECT_EQ(open.ledger[0].entry.after.held, kHoldAmount);
  EXPECT_EQ(open.ledger[0].source, command.id.uuid);
  EXPECT_EQ(open.ledger[0].created_at, open.view.created_at);
}

TEST_F(DetailsTest, TellEveryCallButNotWhoWasAsked) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  call(task, 0, kCallFailed, "HTTP 503 from primary");
  call(task, 2, kCallUnknown, "");
  call(task, 4, kCallFailed, kNotCalled);
  call(task, 6, kCallSucceeded, "audio could not be stored");
  call(task, 8, kCallFailed, "not called by name");
  make_due(task);
  const auto claimed = claim(task, 10);
  ASSERT_TRUE(claimed);
  const TaskDetails running = details(user, task);
  EXPECT_EQ(running.view.epoch, 11u);
  EXPECT_EQ(running.calls, 6u);
  const std::vector<std::pair<std::uint32_t, End>> before{{1, End::kFailed},
                                                          {2, End::kInterrupted},
                                                          {3, End::kNotBegun},
                                                          {4, End::kFailed},
                                                          {5, End::kFailed}};
  auto expected = before;
  expected.emplace_back(6, End::kNone);
  EXPECT_EQ(ends_of(running), expected);
  EXPECT_EQ(running.timeline[0].why, CallFailure::kBusy);
  EXPECT_EQ(running.timeline[3].why, CallFailure::kOther) << "ours, and nothing of it is told";
  SettleCommand command = settle_command(Settle::kSucceed, *claimed);
  command.call = 6;
  command.call_state = kCallSucceeded;
  EXPECT_EQ(settle(command), SettleOutcome::kSettled);
  const TaskDetails done = details(user, task);
  expected = before;
  expected.emplace_back(6, End::kSucceeded);
  EXPECT_EQ(ends_of(done), expected);
  EXPECT_EQ(done.timeline.back().ended_at, done.view.updated_at);
  ASSERT_THAT(done.ledger, SizeIs(2));
  EXPECT_EQ(done.ledger[1].entry.kind, EntryKind::kResolve);
  EXPECT_EQ(done.ledger[1].entry.d_system, credits(75));
  EXPECT_EQ(done.ledger[1].entry.d_available, credits(75));
  ASSERT_TRUE(history_.erase(user, task));
  const TaskDetails erased = details(user, task);
  EXPECT_EQ(erased.request, "");
  EXPECT_TRUE(erased.deleted_at);
  EXPECT_EQ(ends_of(erased), expected);
}

// The row as it was read just before a settlement, and the ledger as it was just after.
TEST_F(DetailsTest, HaveNoSettlementOfWhatIsOpen) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  must(store_.cancel(task));
  EXPECT_THAT(details(user, task).ledger, SizeIs(2));
  db_.execute(Sql("UPDATE tasks SET state=1, charged=NULL WHERE id=") << task);
  const TaskDetails open = details(user, task);
  EXPECT_EQ(open.view.state, TaskState::kQueued);
  ASSERT_THAT(open.ledger, SizeIs(1));
  EXPECT_EQ(open.ledger[0].entry.kind, EntryKind::kHold);
  db_.execute(Sql("UPDATE tasks SET state=5, charged=0 WHERE id=") << task);
}

// A claim that has called nobody is at what the request refers to, if it does to anything.
TEST_F(DetailsTest, TellWhatWaitsForItsReferences) {
  const UserId user = db_.add_user();
  for (const char* const request : {R"({"prompt":"x","audio_references":["https://a.test/"]})",
                                    R"({"prompt":"x","image_url":"https://a.test/"})",
                                    R"({"prompt":"\"audio_references\":[ \"image_url\":\""})"}) {
    const bool refers = std::string_view(request).find("a.test") != std::string_view::npos;
    CreateCommand command = create_command(user);
    command.request = request;
    command.route = Route{static_cast<std::uint8_t>(refers ? 2 : 0)};
    create(command);
    const TaskId task = command.id;
    const auto waits = [&] {
      return waiting_on(*find(task, user),
                        std::chrono::floor<std::chrono::microseconds>(
                            std::chrono::system_clock::now())) == WaitingOn::kReference;
    };
    EXPECT_FALSE(waits()) << "nobody has taken it";
    const auto take = [&](std::uint32_t epoch, const auto& provider) {
      const Hint hint{task, epoch};
      return *only(store_.claim({&hint, 1}, worker_, provider));
    };
    const Claim fetching = take(0, no_provider);
    EXPECT_EQ(waits(), refers) << "what refers to nothing waits for a provider";
    EXPECT_EQ(details(user, task).view.waits_for_reference, refers);
    SettleCommand command_back = settle_command(Settle::kRelease, fetching);
    command_back.retry_after = 1h;
    EXPECT_EQ(settle(command_back), SettleOutcome::kRequeued);
    EXPECT_EQ(waits(), refers);
    make_due(task);
    EXPECT_FALSE(waits()) << "it waits for somebody to take it";
    const Claim again = take(2, no_provider);
    const CallStart start{.task = task, .epoch = again.epoch, .n = 1, .provider = "primary"};
    EXPECT_TRUE(only(store_.start_calls({&start, 1})));
    EXPECT_FALSE(waits()) << "somebody is called";
    SettleCommand retry = settle_command(Settle::kRetry, again);
    retry.call = 1;
    retry.call_state = kCallFailed;
    retry.retry_after = 5min;
    EXPECT_EQ(settle(retry), SettleOutcome::kRequeued);
    EXPECT_FALSE(waits()) << "for another attempt";
    must(store_.cancel(task));
    EXPECT_FALSE(waits());
  }
}

TEST_F(DetailsTest, OfATaskOfTheReleaseBeforeNobodyKnowsWhetherItRefers) {
  const UserId user = db_.add_user();
  CreateCommand command = create_command(user);
  command.route = Route{2};
  create(command);
  const Hint hint{command.id, 0};
  EXPECT_TRUE(only(store_.claim({&hint, 1}, worker_, no_provider)));
  EXPECT_TRUE(find(command.id, user)->waits_for_reference);
  db_.execute(Sql("UPDATE tasks SET route=NULL"));
  EXPECT_FALSE(find(command.id, user)->waits_for_reference);
}

TEST_F(DetailsTest, HaveTheNewestOfManyCalls) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  constexpr std::uint32_t kMany = kCallsShown + 2;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    call(task, 2 * i, kCallFailed, "no");
  }
  const TaskDetails many = details(user, task);
  EXPECT_EQ(many.calls, kMany);
  ASSERT_THAT(many.timeline, SizeIs(kCallsShown));
  EXPECT_EQ(many.timeline.front().n, 3u);
  EXPECT_EQ(many.timeline.back().n, kMany);
}

// By the rights of the program that asks.
TEST_F(DetailsTest, AreReadByTheApi) {
  const UserId user = db_.add_user();
  const TaskId task = create(user);
  call(task, 0, kCallFailed, "no");
  call(task, 2, kCallFailed, "no");
  Session session(db_.as("api"));
  const auto found = History(session).details(user, task);
  ASSERT_TRUE(found) << found.error().detail;
  ASSERT_TRUE(*found);
  EXPECT_THAT((*found)->timeline, SizeIs(2));
}

}  // namespace
}  // namespace audiogen::store
