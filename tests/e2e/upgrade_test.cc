// A release replaces the one before while clients are at work: the schema moves under the old
// programs, the new ones come one by one, and go again. What a program is told of its schema
// (SCHEMA_VERSION) makes the same binaries old and new ones.
#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <set>
#include <thread>

#include <curl/curl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/domain/pricing.h"
#include "common/store/migrate.h"
#include "tests/e2e/chain.h"
#include "tests/support/places.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using store::Migration;
using store::Older;
using store::Sql;
using testing::HasSubstr;

// As SCHEMA_VERSION.
enum class Release { kOld, kNew };

std::map<std::string, std::string> of(Release release) {
  const int version = store::newest_migration() + (release == Release::kNew ? 1 : 0);
  return {{"SCHEMA_VERSION", std::to_string(version)}};
}

// The release's migrations, and one of the next.
std::vector<Migration> with_next(std::string_view sql, Older older) {
  const auto known = store::migrations();
  std::vector<Migration> out(known.begin(), known.end());
  out.push_back({store::newest_migration() + 1, sql, older});
  return out;
}

// A column and a table more, and the rows that are there moved. The same programs write the rows.
constexpr std::string_view kExpand =
    "ALTER TABLE tasks ADD COLUMN of_the_next TINYINT UNSIGNED NULL;"
    "CREATE TABLE for_the_next (id BINARY(16) NOT NULL PRIMARY KEY) ENGINE=InnoDB;"
    "REPEAT UPDATE tasks SET of_the_next=1 WHERE of_the_next IS NULL;";

bool ready(const std::string& ops_url) {
  return http("GET", ops_url + "/readyz").status == 200;
}

// Two API processes, as behind a proxy that tries the next one where nobody listens.
class Apis {
 public:
  static constexpr std::size_t kPlaces = 2;

  explicit Apis(Stack& stack) : stack_(stack) {
    for (Place& place : places_) {
      place.port = free_port();
      place.ops_port = free_port();
    }
  }

  // Ends what runs there, as an operator does, and starts the other in its place.
  void replace(std::size_t number, Release release) {
    Place& place = places_.at(number);
    if (place.process) {
      place.process->signal(SIGTERM);
      EXPECT_EQ(place.process->wait(60s), 0);
    }
    auto environment = stack_.environment();
    environment["DATABASE_URL"] = stack_.database_url("api");
    environment["LISTEN"] = "127.0.0.1:" + std::to_string(place.port);
    environment["OPS_LISTEN"] = "127.0.0.1:" + std::to_string(place.ops_port);
    environment.merge(of(release));
    place.process =
        std::make_unique<Process>(std::vector<std::string>{program_path("audio-api"), "serve"},
                                  environment,
                                  stack_.log_folder() + "/api" + std::to_string(number) + ".log");
    EXPECT_TRUE(eventually(60s, [&] {
      return ready("http://127.0.0.1:" + std::to_string(place.ops_port));
    })) << place.process->log();
  }

  // `path` of the service, from the process that `first` would ask, or, if nobody listens there,
  // from another.
  Reply ask(std::size_t first,
            const std::string& method,
            const std::string& path,
            const std::vector<std::string>& headers,
            std::string_view body = {}) const {
    Reply reply;
    for (std::size_t i = 0; i < kPlaces; ++i) {
      const Place& place = places_[(first + i) % kPlaces];
      reply = http(method, "http://127.0.0.1:" + std::to_string(place.port) + path, headers, body);
      if (reply.status != 0 || reply.error != ::curl_easy_strerror(CURLE_COULDNT_CONNECT)) {
        return reply;
      }
    }
    return reply;
  }

 private:
  struct Place {
    std::uint16_t port = 0, ops_port = 0;
    std::unique_ptr<Process> process;
  };
  Stack& stack_;
  std::array<Place, kPlaces> places_;
};

// Clients who create, poll and fetch, and take no answer but the right one.
class Clients {
 public:
  static constexpr std::size_t kClients = 4;

  Clients(Stack& stack, const Apis& apis) : apis_(apis) {
    for (std::size_t number = 0; number < kClients; ++number) {
      accounts_.push_back(stack.account(100'000));
    }
    for (std::size_t number = 0; number < kClients; ++number) {
      threads_.emplace_back([this, number] { live(number); });
    }
  }
  ~Clients() { stop(); }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // Each ends what it has begun.
  void stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) {
        thread.join();
      }
    }
  }
  // So many generations more have begun and ended.
  void expect_life(std::size_t more = 2 * kClients) const {
    const std::size_t enough = ended_ + more;
    EXPECT_TRUE(eventually(60s, [&] { return ended_ >= enough; }));
  }
  std::size_t ended() const { return ended_; }
  std::size_t requests() const { return requests_; }
  const std::vector<Account>& accounts() const { return accounts_; }
  std::size_t ended_of(std::size_t client) const { return ended_of_.at(client); }

 private:
  void live(std::size_t client) {
    for (std::size_t n = 0; !stopping_ && !::testing::Test::HasFailure(); ++n) {
      const std::string key = std::to_string(client) + "-" + std::to_string(n);
      const Reply created = expect(202,
                                   client,
                                   "POST",
                                   "/api/v1/audio/generations",
                                   {"Content-Type: application/json", "Idempotency-Key: " + key},
                                   wav_body("Number " + key));
      const std::string path = "/api/v1/audio/generations/" + created.text("id");
      Reply reply;
      const bool ended = eventually(60s, [&] {
        pace(10ms);
        reply = expect(200, client, "GET", path);
        return reply.status != 200 || reply.text("status") == "succeeded" ||
               reply.text("status") == "failed";
      });
      EXPECT_TRUE(ended) << reply.body;
      EXPECT_EQ(reply.text("status"), "succeeded") << reply.body;
      expect(200, client, "GET", "/api/v1/audio/generations?limit=3");
      const std::string url = reply.text("output.url");
      const auto file = url.find("/files/");
      EXPECT_NE(file, std::string::npos) << reply.body;
      if (file != std::string::npos) {
        expect(200, client, "GET", url.substr(file));
      }
      ++ended_of_[client];
      ++ended_;
    }
  }

  Reply expect(int status,
               std::size_t client,
               const std::string& method,
               const std::string& path,
               const std::vector<std::string>& headers = {},
               std::string_view body = {}) {
    Reply reply =
        apis_.ask(client, method, path, Stack::bearer(accounts_[client].key, headers), body);
    ++requests_;
    EXPECT_EQ(reply.status, status)
        << method << " " << path << ": " << reply.error << " " << reply.body;
    return reply;
  }

  const Apis& apis_;
  std::vector<Account> accounts_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::size_t> ended_{0}, requests_{0};
  std::array<std::size_t, kClients> ended_of_{};
  std::vector<std::thread> threads_;
};

class Upgrade : public testing::Test {
 protected:
  Upgrade()
      : provider_([](const DoubleCall&) {
          DoubleReply reply = wav_reply(1);
          reply.delay = 100ms;  // Long enough to be in the middle of it.
          return reply;
        }),
        chain_({openai_entry("upstream", provider_)}) {
    provider_.forget_bodies();
  }

  Stack::Options options() const {
    Stack::Options out = chain_.options();
    out.api = false;
    out.workers = 0;
    out.environment["RATE_LIMIT_FILES_BURST"] = "1000000";
    return out;
  }
  Result<std::vector<int>> migrate(Stack& stack, std::string_view sql, Older older) {
    return store::migrate(
        stack.database().url(), with_next(sql, older), {.notice = 0ms, .rows = 20});
  }
  // What `migrate` says before its first statement.
  static void begin_next(Stack& stack, Older older) {
    const int next = store::newest_migration() + 1;
    stack.database().execute(Sql("INSERT INTO schema_migrations VALUES (")
                             << next << ",0,0,NULL," << (older == Older::kServe ? next - 1 : next)
                             << ")");
  }

  ProviderDouble provider_;
  ChainFile chain_;
};

TEST_F(Upgrade, ThereAndBackUnderLoadFailsNoRequest) {
  Stack stack(options());
  Apis apis(stack);
  std::array<std::size_t, 2> workers{};
  const auto roll = [&](Release release, const Clients& clients) {
    for (std::size_t place = 0; place < Apis::kPlaces; ++place) {
      apis.replace(place, release);
      clients.expect_life();
    }
    for (std::size_t& worker : workers) {
      const std::size_t next = stack.start_worker(of(release));
      stack.worker(worker).signal(SIGTERM);
      EXPECT_EQ(stack.worker(worker).wait(60s), 0) << stack.worker(worker).log();
      worker = next;
      clients.expect_life();
    }
  };
  for (std::size_t place = 0; place < Apis::kPlaces; ++place) {
    apis.replace(place, Release::kOld);
  }
  for (std::size_t& worker : workers) {
    worker = stack.start_worker(of(Release::kOld));
  }
  Clients clients(stack, apis);
  clients.expect_life();

  const auto applied = migrate(stack, kExpand, Older::kServe);
  ASSERT_TRUE(applied) << applied.error().message;
  clients.expect_life();
  roll(Release::kNew, clients);
  roll(Release::kOld, clients);
  // As whoever starts the release before does first.
  EXPECT_THAT(*store::migrate(stack.database().url()), testing::IsEmpty());

  clients.stop();
  RecordProperty("requests", static_cast<int>(clients.requests()));
  const std::int64_t price = charge_for(1000).value;
  for (std::size_t client = 0; client < Clients::kClients; ++client) {
    const Account& account = clients.accounts()[client];
    const auto paid = static_cast<double>(clients.ended_of(client)) * static_cast<double>(price);
    EXPECT_DOUBLE_EQ(credits_of(stack, account, "available_credits"), 100'000 - paid / 1000);
    EXPECT_EQ(credits_of(stack, account, "reserved_credits"), 0);
  }
  EXPECT_EQ(stack.database().number(Sql("SELECT COUNT(*) FROM tasks")),
            static_cast<std::int64_t>(clients.ended()));
  EXPECT_GT(stack.database().number(Sql("SELECT COUNT(*) FROM tasks WHERE of_the_next=1")), 0);
  EXPECT_EQ(stack.admin_raw({"audit"}).code, 0);
  stack.database().expect_invariants();
}

// It would keep its lease for as long as it lives, and settle nothing.
TEST_F(Upgrade, AWorkerThatMayServeNoLongerGivesBackWhatItHas) {
  std::atomic<bool> answers{false};
  ProviderDouble provider([&](const DoubleCall&) {
    DoubleReply reply = wav_reply(1);
    reply.form = answers ? DoubleReply::Form::kWhole : DoubleReply::Form::kHang;
    return reply;
  });
  const ChainFile chain({openai_entry("upstream", provider)});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  const std::size_t old = stack.start_worker(of(Release::kOld));
  const Account ann = stack.account();
  const std::string id = stack.create(ann, wav_body("Hello")).text("id");
  ASSERT_TRUE(provider.wait_until([&] { return provider.call_count() == 1; }, 60s));

  begin_next(stack, Older::kStop);
  EXPECT_EQ(stack.worker(old).wait(60s), 1);
  EXPECT_THAT(stack.worker(old).log(), HasSubstr("newer than this program may serve on"));
  EXPECT_EQ(stack.database().number(Sql("SELECT COUNT(*) FROM tasks WHERE state=1 AND "
                                        "lost_leases=0 AND lease_until IS NULL")),
            1)
      << "given back, and not lost";
  auto environment = stack.environment();
  environment["DATABASE_URL"] = stack.database_url("worker");
  environment["OPS_LISTEN"] = "127.0.0.1:" + std::to_string(free_port());
  const std::vector<std::string> program = {program_path("audio-worker")};
  for (const Release release : {Release::kOld, Release::kNew}) {
    environment["SCHEMA_VERSION"] = of(release).at("SCHEMA_VERSION");
    EXPECT_EQ(run(program, environment).code, 1)
        << "neither serves while the migration is under way";
  }

  answers = true;
  const auto applied = migrate(stack, "CREATE TABLE for_the_next (n INT)", Older::kStop);
  ASSERT_TRUE(applied) << applied.error().message;
  stack.start_worker(of(Release::kNew));
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  stack.database().expect_invariants();
}

TEST_F(Upgrade, AnApiThatMayServeNoLongerIsNotReadyUntilItMay) {
  Stack::Options with_api = options();
  with_api.api = true;
  Stack stack(with_api);
  begin_next(stack, Older::kServe);
  const std::string url = stack.ops_url();
  EXPECT_THAT(http("GET", url + "/readyz").body, HasSubstr("\"schema\":true"));
  stack.database().execute(Sql("UPDATE schema_migrations SET serves_from=version"));
  EXPECT_TRUE(eventually(60s, [&] { return !ready(url); }));
  const Reply reply = http("GET", url + "/readyz");
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("\"database\":true,\"schema\":false"));
  stack.database().execute(Sql("DELETE FROM schema_migrations WHERE version=")
                           << store::newest_migration() + 1);
  EXPECT_TRUE(eventually(60s, [&] { return ready(url); }));
  EXPECT_TRUE(stack.api().running());
}

}  // namespace
}  // namespace audiogen::test
