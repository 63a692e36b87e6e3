#include "tests/fault/arena.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/base/checksum.h"
#include "common/base/crypto.h"
#include "common/domain/pricing.h"
#include "common/queue/amqp.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kUsers = 3;
constexpr std::int64_t kGranted = 1'000'000;
constexpr auto kPatience = 2min;
constexpr auto kBetweenLooks = 20ms;
// Of the format that is asked for: mono of 16 bits at 24 kHz behind a header.
constexpr std::int64_t kWavHeader = 44, kBytesPerMillisecond = 48;

// What the audio of generation `number` lasts: its stamp, by which a client knows it from all
// others of these minutes. One in four is long enough to cost more than the least.
std::int64_t stamp_of(std::size_t number) {
  const auto step = static_cast<std::int64_t>(number % 1'699);
  return number % 4 == 0 ? 8'001 + step : 301 + step;
}

// The same broker, by this port of this machine.
std::string through(AmqpUrl url, std::uint16_t port) {
  url.host = "127.0.0.1";
  url.port = port;
  return text_of(url);
}

std::string entry(const std::string& name, const std::string& base_url) {
  return R"({"name":")" + name + R"(","kind":"openai","base_url":")" + base_url +
         R"(","api_key_env":"PROVIDER_KEY","model":"m","timeout_seconds":2,)"
         R"("voices":{"aria":"coral"}})";
}

// The prompt is the stamp, and the double answers with audio that long.
DoubleReply stamped(const DoubleCall& call) {
  rapidjson::Document body;
  body.Parse(call.body.c_str());
  const double milliseconds =
      body.IsObject() && body.HasMember("input") ? std::atof(body["input"].GetString()) : 0;
  return {.headers = {"Content-Type: audio/wav"},
          .body = tone_wav(milliseconds / 1000),
          .delay = 100ms};  // Long enough to be in the middle of it.
}

bool is_final(const std::string& status) {
  return status == "succeeded" || status == "failed" || status == "canceled";
}

}  // namespace

void Gap::restart() {
  const std::scoped_lock lock(mutex_);
  last_ = Clock::now();
  longest_ = {};
}

void Gap::happened() {
  const std::scoped_lock lock(mutex_);
  const Clock::time_point now = Clock::now();
  longest_ = std::max(longest_, now - last_);
  last_ = now;
}

std::chrono::milliseconds Gap::longest() const {
  const std::scoped_lock lock(mutex_);
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::max(longest_, Clock::now() - last_));
}

Arena::Arena(const Options& options) : options_(options), workers_(kWorkers) {
  // First: it needs a process of one thread.
  if (const int megabytes = options_.audio_disk + options_.database_disk; megabytes > 0) {
    disk_ = std::make_unique<SmallDisk>(megabytes);
  }
  if (options_.clusters) {
    nodes_.emplace();
    databases_.emplace();
    brokers_.emplace();
  }
  if (options_.own_database) {
    own_database_ = std::make_unique<PrivateDatabase>(
        PrivateDatabase::Options{.under = options_.database_disk > 0 ? disk_->folder() : "",
                                 .movable_clock = options_.movable_clock});
  }
  if (options_.own_broker) {
    own_broker_ = std::make_unique<PrivateBroker>();
    broker_url_ = own_broker_->url();
  } else if (options_.clusters) {
    broker_url_ = brokers_->for_api();
  } else {
    broker_url_ = test_broker_url();
    broker_url_.vhost = Stack::virtual_host();
  }
  const std::uint16_t database_port = test_server().port;
  api_database_ = std::make_unique<TcpProxy>(database_port);
  for (std::size_t place = 0; place < kWorkers; ++place) {
    worker_database_.push_back(std::make_unique<TcpProxy>(database_port));
  }
  api_broker_ = std::make_unique<TcpProxy>(broker_url_.port);
  worker_broker_ = std::make_unique<TcpProxy>(options_.clusters ? brokers_->for_workers().port
                                                                : broker_url_.port);

  // Two providers on one double. The first can be broken; the second one always works, so that
  // every generation has to succeed.
  provider_ = std::make_unique<ProviderDouble>([this](const DoubleCall& call) {
    if (call.target.starts_with("/first/")) {
      const std::scoped_lock lock(provider_mutex_);
      if (provider_answers_) {
        return provider_answers_();
      }
    }
    return stamped(call);
  });
  provider_->forget_bodies();
  first_provider_ = std::make_unique<TcpProxy>(provider_->port());
  std::string pattern = std::filesystem::temp_directory_path() / "audiogen-chain-XXXXXX";
  const int fd = ::mkstemp(pattern.data());
  ::close(fd);
  chain_file_ = pattern;
  std::ofstream(chain_file_)
      << R"({"providers":[)"
      << entry("first", "http://127.0.0.1:" + std::to_string(first_provider_->port()) + "/first/v1")
      << "," << entry("second", provider_->url() + "/second/v1") << "]}";

  Stack::Options stack;
  stack.api = false;
  stack.workers = 0;
  stack.amqp_url = through(broker_url_, broker_url_.port);
  stack.environment = {{"PROVIDERS_FILE", chain_file_},
                       {"PROVIDER_KEY", "sk-of-the-provider"},
                       {"WORKER_IN_FLIGHT", "4"},
                       {"RATE_LIMIT_CREATE_BURST", "100000"},
                       {"RATE_LIMIT_CREATE_PER_MINUTE", "1000000"},
                       {"RATE_LIMIT_FILES_BURST", "1000000"},
                       {"RATE_LIMIT_FILES_PER_MINUTE", "1000000"}};
  if (options_.audio_disk > 0) {
    stack.environment["BLOB_URL"] = "file://" + disk_->folder() + "/blobs";
  }
  for (const auto& [name, value] : options_.environment) {
    stack.environment[name] = value;
  }
  stack_ = std::make_unique<Stack>(stack);
  start_api();
  for (std::size_t place = 0; place < kWorkers; ++place) {
    start_worker(place);
  }
  // Of tests before, on the same broker.
  EXPECT_TRUE(eventually(60s, [&] {
    const auto depth = queue::read_depth(broker_url_);
    dead_before_ = depth ? depth->dead : 0;
    return depth.has_value();
  }));
  for (std::size_t user = 0; user < kUsers; ++user) {
    accounts_.push_back(stack_->account(kGranted));
  }
  sampler_ = std::thread([this] { sample(); });
  for (std::size_t number = 0; number < options_.clients; ++number) {
    Client& client = *clients_.emplace_back(std::make_unique<Client>());
    client.number = number;
    client.thread = std::thread([this, &client] { live(client); });
  }
}

Arena::~Arena() {
  closing_ = abandoned_ = true;
  for (const auto& client : clients_) {
    if (client->thread.joinable()) {
      client->thread.join();
    }
  }
  if (sampler_.joinable()) {
    sampler_.join();
  }
  stack_.reset();
  std::error_code ignored;
  std::filesystem::remove(chain_file_, ignored);
}

std::map<std::string, std::string> Arena::environment_of(const std::string& role,
                                                         const TcpProxy& database,
                                                         const TcpProxy& broker) {
  return {{"DATABASE_URL", stack_->database_url(role, database.port())},
          {"AMQP_URL", through(broker_url_, broker.port())}};
}

void Arena::start_api(const std::map<std::string, std::string>& more) {
  auto environment = environment_of("api", *api_database_, *api_broker_);
  environment.insert(more.begin(), more.end());
  stack_->start_api(environment);
}

Process& Arena::worker(std::size_t place) {
  return stack_->worker(workers_.at(place));
}

void Arena::start_worker(std::size_t place, const std::map<std::string, std::string>& more) {
  auto environment = environment_of("worker", *worker_database_.at(place), *worker_broker_);
  environment.insert(more.begin(), more.end());
  workers_.at(place) = stack_->start_worker(environment);
}

void Arena::end_leases(std::size_t place) {
  if (options_.soak) {
    return;
  }
  execute(store::Sql("UPDATE tasks SET lease_until=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND, "
                     "wake_at=UTC_TIMESTAMP(6) WHERE state=2 AND worker IN (SELECT id FROM workers "
                     "WHERE pid=")
          << static_cast<std::uint64_t>(worker(place).pid()) << ")");
}

void Arena::provider_answers(std::function<DoubleReply()> how) {
  const std::scoped_lock lock(provider_mutex_);
  provider_answers_ = std::move(how);
}

void Arena::execute(const store::Sql& sql) {
  store::Session(stack_->database().url()).execute(sql);
}

void Arena::felt(std::size_t answers, std::chrono::milliseconds limit) const {
  const std::size_t enough = answers_ + answers;
  eventually(limit, [&] { return answers_ >= enough; });
}

void Arena::expect_refusals(std::size_t count, std::chrono::milliseconds limit) const {
  const std::size_t enough = refusals_ + count;
  EXPECT_TRUE(eventually(limit, [&] { return refusals_ >= enough; })) << "nobody was refused";
}

void Arena::expect_life() {
  std::vector<std::size_t> before;
  for (const auto& client : clients_) {
    before.push_back(client->ended);
  }
  const bool alive = eventually(kPatience, [&] {
    for (const auto& client : clients_) {
      if (client->ended < before[client->number] + 2) {
        return false;
      }
    }
    return true;
  });
  EXPECT_TRUE(alive) << "a generation waited for two minutes with nothing broken";
  abandoned_ = abandoned_ || !alive;
}

std::size_t Arena::generations() const {
  const std::scoped_lock lock(stories_mutex_);
  return stories_.size();
}

void Arena::watch() {
  promises_.restart();
  ends_.restart();
  refusals_before_ = refusals_.load();
}

Arena::Felt Arena::watched() const {
  return {.without_promise = promises_.longest(),
          .without_end = ends_.longest(),
          .refused = refusals_ - refusals_before_};
}

Reply Arena::ask(const std::string& method,
                 const std::string& path,
                 const Story& story,
                 std::vector<std::string> headers,
                 std::string_view body) {
  Reply reply = http(method,
                     stack_->base() + "/audio/generations" + path,
                     Stack::bearer(accounts_[story.user].key, std::move(headers)),
                     body);
  ++answers_;
  if (reply.status == 0 || reply.status == 503) {
    ++refusals_;
    pace(kBetweenLooks);
  }
  return reply;
}

void Arena::live(Client& client) {
  std::mt19937_64 dice(options_.seed * 1'000 + client.number);
  while (!closing_) {
    const std::size_t number = begun_++;
    Story story;
    story.user = dice() % kUsers;
    story.key = "generation-" + std::to_string(number);
    story.milliseconds = stamp_of(number);
    const bool promised = create(story);
    if (promised && dice() % 8 == 0) {
      cancel(story);
    }
    const bool ended = promised && follow(story);
    if (ended && dice() % 4 == 0) {
      const std::string id = story.id;
      create(story);
      EXPECT_EQ(story.id, id) << "one key, two generations";
    }
    {
      const std::scoped_lock lock(stories_mutex_);
      stories_.push_back(story);
    }
    ++client.ended;
  }
}

bool Arena::create(Story& story) {
  const std::string body = R"({"model":"svc-audio-1.0","output_format":"wav","prompt":")" +
                           std::to_string(story.milliseconds) + "\"}";
  while (!abandoned_) {
    const Reply reply = ask("POST",
                            "",
                            story,
                            {"Content-Type: application/json", "Idempotency-Key: " + story.key},
                            body);
    if (reply.status == 202) {
      story.id = reply.text("id");
      promises_.happened();
      return true;
    }
    if (reply.status != 503 && reply.status != 0) {
      ADD_FAILURE() << "a creation was answered with " << reply.status << " " << reply.body;
      return false;
    }
  }
  return false;
}

bool Arena::follow(Story& story) {
  while (!abandoned_) {
    const Reply reply = ask("GET", "/" + story.id, story);
    if (reply.status == 503 || reply.status == 0) {
      continue;
    }
    const std::string status = reply.text("status");
    EXPECT_EQ(reply.status, 200) << "of a generation that was promised: " << reply.body;
    EXPECT_EQ(reply.text("id"), story.id);
    if (reply.status != 200) {
      return false;
    }
    story.last = status;
    if (is_final(status)) {
      story.billing = reply.text("billing");
      ends_.happened();
      if (status == "succeeded") {
        judge_audio(story, reply);
      } else {
        EXPECT_EQ(status, "canceled") << story.id << ": " << reply.body;
      }
      return true;
    }
    pace(kBetweenLooks);
  }
  return false;
}

void Arena::cancel(const Story& story) {
  while (!abandoned_) {
    const Reply reply = ask("POST", "/" + story.id + "/cancel", story);
    if (reply.status != 503 && reply.status != 0) {
      // Too late, or too many of them, is an answer as well.
      EXPECT_TRUE(reply.status == 200 || reply.status == 409 || reply.status == 429)
          << reply.status << " " << reply.body;
      return;
    }
  }
}

void Arena::judge_audio(Story& story, const Reply& reply) {
  const std::string price = format_credits(charge_for(story.milliseconds));
  EXPECT_EQ(reply.text("usage.credits"), price) << story.id;
  EXPECT_EQ(std::llround(std::atof(reply.text("output.duration_seconds").c_str()) * 1000),
            story.milliseconds)
      << story.id << " has another's length";
  while (!abandoned_) {
    const Reply file = http("GET", reply.text("output.url"));
    ++answers_;
    if (file.status == 503 || file.status == 0) {
      pace(kBetweenLooks);
      continue;
    }
    EXPECT_EQ(file.status, 200) << story.id;
    EXPECT_EQ(static_cast<std::int64_t>(file.body.size()),
              kWavHeader + kBytesPerMillisecond * story.milliseconds)
        << story.id << " sounds like another";
    story.checksum = to_hex(checksum(file.body));
    return;
  }
}

// At every moment what users have, and what they have paid, is what they were given. One sum, and
// not the audit's rules, which read what is there once everything rests.
void Arena::sample() {
  std::optional<store::Session> session;
  while (!closing_) {
    try {
      if (!session) {
        session.emplace(stack_->database().url());
      }
      store::Rows rows = session->query(
          store::Sql("SELECT (SELECT COALESCE(SUM(available+held),0) FROM balances) + "
                     "(SELECT COALESCE(SUM(d_system),0) FROM ledger)"));
      if (rows.next()) {
        EXPECT_EQ(rows.i64(1), 0) << "credits came from nowhere, or went there";
      }
    } catch (const store::DbError&) {
      session.reset();  // One of those faults.
    }
    pace(250ms);
  }
}

void Arena::judge(std::uint64_t nonsense) {
  closing_ = true;
  for (const auto& client : clients_) {
    client->thread.join();
  }
  sampler_.join();
  std::vector<Units> charged(kUsers);
  for (const Story& story : stories_) {
    judge_story(story);
    if (story.last == "succeeded") {
      charged[story.user] = charged[story.user] + charge_for(story.milliseconds);
    }
  }
  EXPECT_EQ(stack_->database().number(store::Sql("SELECT COUNT(*) FROM tasks")),
            static_cast<std::int64_t>(stories_.size()))
      << "there are generations that nobody was promised";
  EXPECT_LE(stack_->database().number(store::Sql("SELECT COALESCE(MAX(claims),0) FROM tasks")), 5);
  for (std::size_t user = 0; user < kUsers; ++user) {
    const auto shown = stack_->admin({"user", "show", "--user", accounts_[user].user});
    EXPECT_DOUBLE_EQ(shown["available_credits"].GetDouble(),
                     static_cast<double>((credits(kGranted) - charged[user]).value) / 1000);
    EXPECT_EQ(shown["reserved_credits"].GetDouble(), 0);
  }
  stack_->database().expect_invariants();
  // The queues are there, whatever became of those there were, and what could be read did not end
  // among the dead letters.
  std::optional<queue::Depth> depth;
  EXPECT_TRUE(eventually(60s, [&] {
    depth = queue::read_depth(broker_url_);
    return depth.has_value();
  })) << "a queue is missing";
  EXPECT_LE(depth.value_or(queue::Depth{}).dead, dead_before_ + nonsense);
}

void Arena::expect_one_history() {
  const auto read = [&](int node) {
    DatabaseUrl url = databases_->server(node);
    url.database = stack_->database().url().database;
    store::Session session(url);
    store::Rows rows = session.query(store::Sql("CHECKSUM TABLE balances, ledger, tasks"));
    std::string out;
    while (rows.next()) {
      out += rows.text(1) + "=" + rows.text(2) + " ";
    }
    return out;
  };
  for (const int node : kNodes) {
    EXPECT_TRUE(eventually(30s, [&] { return read(node) == read(databases_->writer()); }))
        << "node " << node << ": " << read(node) << "; the writer: " << read(databases_->writer());
  }
}

// What a client was told last is true for ever.
void Arena::judge_story(const Story& story) {
  if (!is_final(story.last)) {
    ADD_FAILURE() << story.key << " " << story.id << " never ended, last seen: " << story.last;
    return;
  }
  Reply reply;
  EXPECT_TRUE(eventually(60s,
                         [&] {
                           reply = ask("GET", "/" + story.id, story);
                           return reply.status == 200;
                         }))
      << story.id << ": " << reply.status;
  EXPECT_EQ(reply.text("status"), story.last) << story.id;
  EXPECT_EQ(reply.text("billing"), story.billing) << story.id;
  if (story.last == "succeeded") {
    store::Sql sql("SELECT LOWER(HEX(output_checksum)) FROM tasks WHERE id=");
    sql << TaskId::parse(story.id).value();
    EXPECT_EQ(stack_->database().text(sql), story.checksum) << story.id;
  }
}

}  // namespace audiogen::test
