// What is kept of calls that go on, while the database is away and jobs are lost.
#include "worker/job/tickets.h"

#include <atomic>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "common/base/mutex.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/test_database.h"
#include "tests/support/wait.h"
#include "tests/worker/jobs.h"

namespace audiogen::worker {
namespace {

using namespace std::chrono_literals;
using test::eventually;

class TicketsTest : public testing::Test {
 protected:
  TicketsTest() {
    EXPECT_EQ(found(job()), std::nullopt);  // From here on it has a connection.
  }
  ~TicketsTest() override {
    scheduler_.stop();
    tickets_.stop();
  }

  static JobPtr job() {
    store::Claim claim;
    claim.task = TaskId::make();
    claim.until_deadline = 600s;
    const auto now = Job::Clock::now();
    return std::make_shared<Job>(
        Claimed{std::move(claim), nullptr},
        std::make_shared<const Chain>(std::vector<std::unique_ptr<AudioProvider>>()),
        now,
        now);
  }
  // The next statements with `word` in them never arrive.
  void lose(const char* word, int times = 1) {
    proxy_.cut_before(word, test::TcpProxy::Cut::kReset, times);
  }
  bool keep(const JobPtr& of) { return tickets_.keep(of, 1, "queue", "the ticket"); }
  std::optional<std::string> found(const JobPtr& of) {
    struct Answer {
      std::atomic<bool> there{false};
      store::TicketOutcome ticket{};
    };
    const auto answer = std::make_shared<Answer>();
    tickets_.find(of, [answer](store::TicketOutcome ticket) {
      answer->ticket = std::move(ticket);
      answer->there = true;
    });
    EXPECT_TRUE(eventually(60s, [&] { return answer->there.load(); }));
    return answer->ticket ? std::optional(answer->ticket->ticket) : std::nullopt;
  }
  std::int64_t stored() { return db_.number(store::Sql("SELECT COUNT(*) FROM tickets")); }

  test::TestDatabase db_;
  test::TcpProxy proxy_{db_.url().port};
  Scheduler scheduler_;
  Tickets tickets_{db_.tcp_url(proxy_.port()), scheduler_};
};

// The job goes on at the provider, and whoever has the task next looks for it.
TEST_F(TicketsTest, IsWrittenThoughItsJobIsLost) {
  const JobPtr lost = job();
  lose("INSERT INTO tickets", 3);
  ASSERT_TRUE(keep(lost));
  ASSERT_TRUE(eventually(60s, [&] { return proxy_.triggered() >= 1; }));
  lost->lose(false);
  EXPECT_TRUE(eventually(60s, [&] { return stored() == 1; }));
  EXPECT_FALSE(keep(lost)) << "who has it now is to know that it is not kept";
}

TEST_F(TicketsTest, IsFoundAlsoWhereItCouldNotBeWrittenAtOnce) {
  const JobPtr its = job();
  lose("INSERT INTO tickets", 3);
  ASSERT_TRUE(keep(its));
  ASSERT_TRUE(eventually(60s, [&] { return proxy_.triggered() >= 1; }));
  EXPECT_EQ(found(its), "the ticket") << "somebody else would be asked, and paid";
}

TEST_F(TicketsTest, IsForgottenAlsoWhereItCouldNotBeWrittenAtOnce) {
  const JobPtr its = job();
  lose("INSERT INTO tickets", 3);
  ASSERT_TRUE(keep(its));
  ASSERT_TRUE(eventually(60s, [&] { return proxy_.triggered() >= 1; }));
  tickets_.forget(its, 1);
  ASSERT_TRUE(eventually(60s, [&] { return its->tickets_unwritten == 0; }));
  EXPECT_TRUE(eventually(60s, [&] { return stored() == 0; }));
  EXPECT_EQ(found(its), std::nullopt);
}

TEST_F(TicketsTest, OfALostJobNobodyWaitsForMore) {
  const JobPtr lost = job();
  lost->lose(false);
  proxy_.refuse();
  proxy_.cut_all();
  EXPECT_EQ(found(lost), std::nullopt);
}

}  // namespace
}  // namespace audiogen::worker
