// The front door: what one address, or many, may do to everybody else before anybody knows who they
// are. Real processes; clients come from other loopback addresses or through a trusted proxy.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/process.h"
#include "common/base/unique_fd.h"
#include "common/domain/api_key.h"
#include "tests/support/log_lines.h"
#include "tests/support/raw_http.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

Stack::Options options_with(std::map<std::string, std::string> environment) {
  Stack::Options options;
  options.workers = 0;
  options.environment = std::move(environment);
  return options;
}

constexpr const char* kPath = "/api/v1/audio/generations/aud_01jd0000000000000000000000";

std::string read_with(const std::string& key, const std::string& lines = "") {
  return get_request(kPath, "Authorization: Bearer " + key + "\r\n" + lines);
}

// The sum of all lines of a metric whose labels hold that text; -1 when there is none.
double metric(const Stack& stack, const std::string& name, const std::string& labels = "") {
  std::istringstream lines(http("GET", stack.ops_url() + "/metrics").body);
  double sum = -1;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("audiogen_" + name) && line.find(labels) != std::string::npos) {
      sum = std::max(sum, 0.0) + std::stod(line.substr(line.rfind(' ') + 1));
    }
  }
  return sum;
}

// Past the time for which a valid key is remembered: it must be looked up again.
bool looked_up_again() {
  return eventually(std::chrono::seconds(60), [asked = std::chrono::steady_clock::now()] {
    return std::chrono::steady_clock::now() - asked > std::chrono::milliseconds(900);
  });
}

// How often what happens once in `each` has happened since then.
double times_in(std::chrono::milliseconds each, std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since) / each;
}

// Wrong keys of the right form, each another one, over one connection. Statuses by number.
std::map<int, int> flood(const Stack& stack, int count, const std::string& source) {
  std::map<int, int> statuses;
  RawConnection client(stack.api_port(), "127.0.0.1", 0, source);
  for (int i = 0; i < count; ++i) {
    const auto response = client.exchange(read_with(make_api_key("svc").text));
    ++statuses[response ? response->status : 0];
  }
  return statuses;
}

// Reads as `key` until `stop`, and counts what is not the expected 404.
int disturbed(const Stack& stack, const std::string& key, const std::atomic<bool>& stop) {
  int bad = 0;
  RawConnection client(stack.api_port(), "127.0.0.1", 0, "127.0.0.9");
  for (bool last = false; !last;) {
    last = stop;
    const auto response = client.exchange(read_with(key));
    bad += response && response->status == 404 ? 0 : 1;
    pace(std::chrono::milliseconds(1));  // Below its own limit.
  }
  return bad;
}

TEST(WrongKeys, OfOneAddressAreReadUpToItsLimitAndDisturbNobody) {
  Stack stack(options_with({{"RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE", "20"}}));
  const Account ann = stack.account();
  ASSERT_EQ(stack.get(ann, "aud_x").status, 404);
  const double before = metric(stack, "api_key_reads_total", "unknown");
  ASSERT_GE(before, 0);
  std::atomic<bool> stop{false};
  int bad = 0;
  std::thread valid([&] { bad = disturbed(stack, ann.key, stop); });
  std::vector<std::thread> floods;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) {
    floods.emplace_back([&] {
      const auto statuses = flood(stack, 500, "127.0.0.2");
      for (const auto& [status, count] : statuses) {
        EXPECT_TRUE(status == 401 || status == 429) << status;
      }
    });
  }
  for (std::thread& thread : floods) {
    thread.join();
  }
  stop = true;
  valid.join();
  EXPECT_EQ(bad, 0);
  EXPECT_LE(metric(stack, "api_key_reads_total", "unknown") - before,
            20 * (1 + times_in(std::chrono::minutes(1), begin)) + 1);
  // Seen valid lately, a key works from there, too.
  RawConnection same(stack.api_port(), "127.0.0.1", 0, "127.0.0.2");
  EXPECT_EQ(same.exchange(read_with(ann.key))->status, 404);
}

TEST(WrongKeys, OfManyAddressesDisturbNobody) {
  Stack stack(options_with({{"RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE", "20"}}));
  const Account ann = stack.account();
  ASSERT_EQ(stack.get(ann, "aud_x").status, 404);
  std::atomic<bool> stop{false};
  int bad = 0;
  std::thread valid([&] { bad = disturbed(stack, ann.key, stop); });
  std::vector<std::thread> floods;
  for (int t = 0; t < 4; ++t) {
    floods.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        flood(stack, 25, "127.0.1." + std::to_string(t * 20 + i + 1));
      }
    });
  }
  for (std::thread& thread : floods) {
    thread.join();
  }
  stop = true;
  valid.join();
  EXPECT_EQ(bad, 0);
}

// More unknown keys than there is room for, while the database answers nobody: they are refused,
// and one seen valid lately still has its place.
TEST(WrongKeys, KeysSeenLatelyDoNotQueueBehindUnknownOnes) {
  raise_descriptor_limit();
  Stack stack(options_with(
      {{"RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE", "1000000"}, {"CONNECTIONS_PER_ADDRESS", "5000"}}));
  const Account ann = stack.account();
  RawConnection valid(stack.api_port());
  ASSERT_EQ(valid.exchange(read_with(ann.key))->status, 404);
  std::vector<RawConnection> unknown;
  std::vector<std::string> requests;  // Ready before the lock: a look-up does not wait for ever.
  for (int i = 0; i < 1200; ++i) {
    unknown.emplace_back(stack.api_port());
    requests.push_back(read_with(make_api_key("svc").text));
    ASSERT_TRUE(unknown.back().connected());
    ASSERT_EQ(unknown.back().exchange(get_request("/nothing"))->status, 404);
  }
  ASSERT_TRUE(looked_up_again());
  stack.database().execute(store::Sql("LOCK TABLES api_keys WRITE"));
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    ASSERT_TRUE(unknown[i].send(requests[i]));
  }
  // The first who find no room are told at once.
  EXPECT_EQ(unknown.back().response()->status, 503);
  ASSERT_TRUE(valid.send(read_with(ann.key)));
  EXPECT_FALSE(valid.response(false, std::chrono::milliseconds(100)));
  stack.database().execute(store::Sql("UNLOCK TABLES"));
  EXPECT_EQ(valid.response()->status, 404);
  // Or that its look-up took too long, where 1,200 requests do.
  EXPECT_THAT(unknown.front().response()->status, testing::AnyOf(401, 503));
}

TEST(WrongKeys, BehindATrustedProxyEachClientHasALimitOfItsOwn) {
  Stack stack(options_with(
      {{"RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE", "5"}, {"TRUSTED_PROXIES", "127.0.0.2, ::1"}}));
  RawConnection proxy(stack.api_port(), "127.0.0.1", 0, "127.0.0.2");
  const auto status_of = [&](RawConnection& from, const std::string& client) {
    const auto response =
        from.exchange(read_with(make_api_key("svc").text, "X-Forwarded-For: " + client + "\r\n"));
    return response ? response->status : 0;
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(status_of(proxy, "203.0.113.1"), 401);
  }
  EXPECT_EQ(status_of(proxy, "203.0.113.1"), 429);
  // What it says of itself in front of that helps it nothing.
  EXPECT_EQ(status_of(proxy, "198.51.100.1, 203.0.113.1"), 429);
  EXPECT_EQ(status_of(proxy, "203.0.113.2"), 401);
  // An IPv6 client is its /64.
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(status_of(proxy, "[2001:db8::" + std::to_string(i) + "]:443"), 401);
  }
  EXPECT_EQ(status_of(proxy, "2001:db8::ffff"), 429);
  EXPECT_EQ(status_of(proxy, "2001:db8:0:1::1"), 401);
  // Nobody else is believed.
  RawConnection other(stack.api_port(), "127.0.0.1", 0, "127.0.0.3");
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(status_of(other, "203.0.113." + std::to_string(100 + i)), i < 5 ? 401 : 429);
  }
}

// It is remembered as missing, but for less than a second.
TEST(WrongKeys, OneThatIsMadeLaterWorksWithinASecond) {
  Stack stack(options_with({}));
  const UserId user = stack.database().add_user();
  const NewApiKey key = make_api_key("svc");
  RawConnection client(stack.api_port());
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.exchange(read_with(key.text))->status, 401);
  }
  const double reads = metric(stack, "api_key_reads_total", "unknown");
  EXPECT_EQ(reads + metric(stack, "api_keys_refused_unread_total"), 5);
  EXPECT_LE(reads, 1 + times_in(std::chrono::milliseconds(800), began));
  store::Sql row("INSERT INTO api_keys (id, user_id, key_hash, prefix, name, created_at) VALUES (");
  row << KeyId::make() << "," << user << ",";
  row.bytes(key.hash) << ",'x','x',UTC_TIMESTAMP(6))";
  stack.database().execute(row);
  EXPECT_TRUE(eventually(std::chrono::seconds(60),
                         [&] { return client.exchange(read_with(key.text))->status == 404; }));
}

// A key of a user without access to the API.
std::string free_key(Stack& stack) {
  const UserId user = stack.database().add_user();
  stack.database().execute(store::Sql("UPDATE users SET plan=0 WHERE id=") << user);
  const NewApiKey key = make_api_key("svc");
  store::Sql row("INSERT INTO api_keys (id, user_id, key_hash, prefix, name, created_at) VALUES (");
  row << KeyId::make() << "," << user << ",";
  row.bytes(key.hash) << ",'x','x',UTC_TIMESTAMP(6))";
  stack.database().execute(row);
  return key.text;
}

std::string create_with(const std::string& key) {
  return post_request("/api/v1/audio/generations",
                      Stack::body(),
                      "Authorization: Bearer " + key + "\r\nContent-Type: application/json\r\n");
}

// It is refused each time, and each time it might have bought access meanwhile; but it is one key.
TEST(ValidKeys, OneWithoutAccessIsReadUpToItsLimit) {
  Stack stack(
      options_with({{"RATE_LIMIT_CREATE_PER_MINUTE", "10"}, {"RATE_LIMIT_CREATE_BURST", "10"}}));
  const std::string key = free_key(stack);
  RawConnection client(stack.api_port());
  std::map<int, int> statuses;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) {
    const auto response = client.exchange(create_with(key));
    ASSERT_TRUE(response);
    ++statuses[response->status];
    if (response->status == 429) {
      EXPECT_FALSE(response->header("retry-after").empty());
      EXPECT_EQ(response->header("x-ratelimit-remaining"), "0");
    }
  }
  EXPECT_EQ(statuses[403] + statuses[429], 200);
  EXPECT_LE(metric(stack, "api_key_reads_total"),
            10 * (1 + times_in(std::chrono::minutes(1), begin)) + 1);
}

// A slow database is no reason to ask it the same a hundred times.
TEST(ValidKeys, AreLookedUpOnceAtATime) {
  Stack stack(options_with({}));
  const Account ann = stack.account();
  std::vector<RawConnection> clients;
  for (int i = 0; i < 50; ++i) {
    clients.emplace_back(stack.api_port());
    ASSERT_TRUE(clients.back().connected());
  }
  ASSERT_EQ(clients[0].exchange(read_with(ann.key))->status, 404);
  ASSERT_TRUE(looked_up_again());
  const double before = metric(stack, "api_key_reads_total");
  const auto began = std::chrono::steady_clock::now();
  stack.database().execute(store::Sql("LOCK TABLES api_keys WRITE"));
  for (RawConnection& client : clients) {
    ASSERT_TRUE(client.send(read_with(ann.key)));
  }
  EXPECT_FALSE(clients.back().response(false, std::chrono::milliseconds(100)));
  stack.database().execute(store::Sql("UNLOCK TABLES"));
  for (RawConnection& client : clients) {
    EXPECT_EQ(client.response()->status, 404);
  }
  // What was read half a second ago is read again for whoever comes then.
  EXPECT_LE(metric(stack, "api_key_reads_total") - before,
            1 + times_in(std::chrono::milliseconds(500), began));
}

// Access bought after a lookup was asked for is not in its answer.
TEST(ValidKeys, WithoutAccessAreAskedForOnceMoreForThoseWhoCameLater) {
  Stack stack(options_with({}));
  const std::string key = free_key(stack);
  RawConnection first(stack.api_port());
  RawConnection second(stack.api_port());
  ASSERT_EQ(first.exchange(create_with(key))->status, 403);
  const double before = metric(stack, "api_key_reads_total");
  stack.database().execute(store::Sql("LOCK TABLES api_keys WRITE"));
  ASSERT_TRUE(first.send(create_with(key)));
  EXPECT_TRUE(eventually(std::chrono::seconds(60),
                         [&] { return metric(stack, "api_key_reads_total") - before == 1; }));
  ASSERT_TRUE(second.send(create_with(key)));
  EXPECT_FALSE(second.response(false, std::chrono::milliseconds(100)));
  stack.database().execute(store::Sql("UNLOCK TABLES"));
  EXPECT_EQ(first.response()->status, 403);
  EXPECT_EQ(second.response()->status, 403);
  EXPECT_EQ(metric(stack, "api_key_reads_total") - before, 2);
}

// One that nobody has seen yet counts once towards its address's limit, not once a request.
TEST(ValidKeys, CountOnceHoweverManyRequestsShowOneAtATime) {
  Stack stack(options_with({{"RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE", "5"}}));
  const Account ann = stack.account();
  std::vector<RawConnection> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(stack.api_port());
    ASSERT_TRUE(clients.back().connected());
  }
  stack.database().execute(store::Sql("LOCK TABLES api_keys WRITE"));
  for (RawConnection& client : clients) {
    ASSERT_TRUE(client.send(read_with(ann.key)));
  }
  EXPECT_FALSE(clients.back().response(false, std::chrono::milliseconds(100)));
  stack.database().execute(store::Sql("UNLOCK TABLES"));
  for (RawConnection& client : clients) {
    EXPECT_EQ(client.response()->status, 404);
  }
}

// Nobody can tell yet whether they are good: that is our trouble and not theirs.
TEST(WrongKeys, AreUnavailableAndNotTooManyWhileTheirLookupsFillTheLimit) {
  Stack stack(options_with({{"RATE_LIMIT_UNAUTHENTICATED_PER_MINUTE", "5"}}));
  std::vector<RawConnection> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back(stack.api_port());
    ASSERT_TRUE(clients.back().connected());
  }
  stack.database().execute(store::Sql("LOCK TABLES api_keys WRITE"));
  for (RawConnection& client : clients) {
    ASSERT_TRUE(client.send(read_with(make_api_key("svc").text)));
  }
  std::map<int, int> statuses;
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] {
    for (RawConnection& client : clients) {
      if (const auto response = client.response(false, std::chrono::milliseconds(10))) {
        ++statuses[response->status];
        client.close();
        return true;
      }
    }
    return false;
  }));
  stack.database().execute(store::Sql("UNLOCK TABLES"));
  for (RawConnection& client : clients) {
    if (client.connected()) {
      const auto response = client.response();
      ++statuses[response ? response->status : 0];
    }
  }
  EXPECT_EQ(statuses, (std::map<int, int>{{401, 5}, {503, 1}}));
  RawConnection next(stack.api_port());
  EXPECT_EQ(next.exchange(read_with(make_api_key("svc").text))->status, 429);
}

TEST(Proxies, ThatNobodyToldOfAreInTheLogOnceAMinute) {
  constexpr const char* kLine = "X-Forwarded-For ignored: set TRUSTED_PROXIES";
  {
    Stack stack(options_with({}));
    RawConnection proxy(stack.api_port());
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(proxy.exchange(read_with("x", "X-Forwarded-For: 203.0.113.77\r\n")));
    }
    const auto lines = [&] {
      const std::string log = stack.api().log();
      int out = 0;
      for (auto at = log.find(kLine); at != std::string::npos; at = log.find(kLine, at + 1)) {
        ++out;
      }
      return out;
    };
    EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] { return lines() == 1; }));
    EXPECT_EQ(stack.api().log().find("203.0.113.77"), std::string::npos);
  }
  Stack stack(options_with({{"TRUSTED_PROXIES", "127.0.0.2"}}));
  RawConnection other(stack.api_port());
  ASSERT_TRUE(other.exchange(read_with("x", "X-Forwarded-For: 203.0.113.77\r\n")));
  EXPECT_EQ(stack.api().log().find(kLine), std::string::npos);
}

// systemd's default. The operations port keeps answering, and so does the public one.
TEST(Connections, FewDescriptorsAreEnough) {
  Stack::Options options = options_with({});
  options.descriptors = 1024;
  Stack stack(options);
  const Account ann = stack.account();
  std::vector<RawConnection> silent;
  for (int i = 0; i < 700; ++i) {
    silent.emplace_back(stack.api_port(), "127.0.0.1", 0, "127.0.0." + std::to_string(2 + i % 3));
    if (i % 100 == 0) {
      EXPECT_EQ(http("GET", stack.ops_url() + "/readyz").status, 200) << i;
      EXPECT_EQ(stack.create(ann, Stack::body()).status, 202) << i;
    }
  }
  EXPECT_EQ(http("GET", stack.ops_url() + "/readyz").status, 200);
  EXPECT_EQ(stack.create(ann, Stack::body()).status, 202);
  // To make room, or on a slow machine for their silence; a connection is there before it is
  // accepted.
  EXPECT_TRUE(eventually(std::chrono::seconds(30), [&] {
    return metric(stack, "http_connections_dropped_total", "evicted_idle") +
               metric(stack, "http_connections_dropped_total", "silent") >
           300;
  }));
  EXPECT_EQ(metric(stack, "http_connections_dropped_total", "no_descriptor"), 0);
  // The lines tell of hundreds, one a second.
  std::vector<Instant> lines;
  EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] {
    lines =
        lines_about(stack.api().log(), "connections dropped", [](const rapidjson::Document& line) {
          EXPECT_STREQ(line["server"].GetString(), "public");
        });
    return !lines.empty();
  }));
  expect_one_a_second(lines);
}

// A shell's soft limit is no bound: the programs raise it as far as they may.
TEST(Connections, TheSoftLimitOfDescriptorsIsRaised) {
  raise_descriptor_limit();
  constexpr rlim_t kSoft = 256, kHard = 65'536;
  rlimit own{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &own), 0);
  const rlim_t hard = std::min(own.rlim_max, kHard);
  Stack::Options options = options_with({{"CONNECTIONS_PER_ADDRESS", "1000"}});
  options.nofile = std::to_string(kSoft) + ":" + std::to_string(hard);
  options.workers = 1;
  Stack stack(options);
  for (const std::string& url : {stack.ops_url(), stack.worker_ops_url(0)}) {
    EXPECT_THAT(http("GET", url + "/metrics").body,
                testing::HasSubstr("\nprocess_max_fds " + std::to_string(hard) + "\n"));
  }
  std::vector<RawConnection> clients;
  for (rlim_t i = 0; i < kSoft + 100; ++i) {
    clients.emplace_back(stack.api_port());
    ASSERT_TRUE(clients.back().exchange(get_request("/"))) << i;
  }
  for (RawConnection& client : clients) {
    EXPECT_TRUE(client.exchange(get_request("/")));
  }
}

// However few there are, one address does not get them all.
TEST(Connections, OneAddressHasAQuarterOfFew) {
  Stack::Options options = options_with({});
  options.descriptors = 1024;
  Stack stack(options);
  std::vector<RawConnection> idle;
  for (int i = 0; i < 100; ++i) {
    idle.emplace_back(stack.api_port(), "127.0.0.1", 0, "127.0.0.2");
    ASSERT_TRUE(idle.back().exchange(get_request("/"))) << i;
  }
  EXPECT_TRUE(idle.front().closed());
  EXPECT_TRUE(idle.back().exchange(get_request("/")));
  EXPECT_NE(stack.api().log().find("one address has at most a quarter"), std::string::npos);
}

TEST(Connections, SilentOnesOfOneAddressLeaveTheOthersAlone) {
  Stack stack(options_with({{"CONNECTIONS_MAX", "200"}, {"CONNECTIONS_PER_ADDRESS", "100"}}));
  const Account ann = stack.account();
  RawConnection kept(stack.api_port());
  ASSERT_EQ(kept.exchange(read_with(ann.key))->status, 404);
  std::vector<RawConnection> silent;
  for (int i = 0; i < 500; ++i) {
    silent.emplace_back(stack.api_port(), "127.0.0.1", 0, "127.0.0.2");
    ASSERT_TRUE(silent.back().connected());
  }
  // It has its share, and pays for more itself.
  for (const std::size_t i : {0u, 100u, 300u}) {
    EXPECT_TRUE(silent[i].closed()) << i;
  }
  // Those for which none of its own was gone in time are refused.
  EXPECT_TRUE(eventually(std::chrono::seconds(60), [&] {
    return metric(stack, "http_connections_dropped_total", "evicted_idle") +
               metric(stack, "http_connections_dropped_total", "refused_address") >=
           400;
  }));
  const auto answer = kept.exchange(read_with(ann.key));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(stack.create(ann, Stack::body()).status, 202);
}

// One connection may carry requests of two users, one after the other without waiting: a key that
// is remembered, and one that must be looked up. Each answer is what its own key may see.
// A file system whose server is gone: whoever opens a file there stands still. A FIFO that nobody
// writes to does the same.
TEST(Files, OnADiskThatStandsStillKeepNobodyElseWaiting) {
  Stack stack;
  const std::string folder = stack.log_folder() + "/blobs";
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const std::string url = stack.wait_final(ann, id).text("output.url");
  ASSERT_EQ(http("GET", url).status, 200);
  std::string segment;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.file_size() > 10'000) {
      segment = entry.path();
    }
  }
  ASSERT_FALSE(segment.empty());
  std::filesystem::rename(segment, segment + ".away");
  ASSERT_EQ(::mkfifo(segment.c_str(), 0600), 0);
  std::vector<std::future<int>> files;
  for (int i = 0; i < 16; ++i) {
    files.push_back(std::async(std::launch::async, [&] { return http("GET", url).status; }));
  }
  // As many as wait for the file at once are let in; each of the others is answered meanwhile.
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(stack.get(ann, id).status, 200);
    EXPECT_EQ(http("GET", stack.public_url() + "/api/v1/voices").status, 200);
  }
  for (auto& file : files) {
    EXPECT_EQ(file.get(), 503) << "nobody knows whether it is there";
  }
  // Somebody opens it at the other end until all are through.
  std::atomic<bool> thawed{false};
  std::jthread other([&](const std::stop_token& stop) {
    while (!thawed && !stop.stop_requested()) {
      const UniqueFd end(::open(segment.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      pace(std::chrono::milliseconds(10));
    }
  });
  ASSERT_TRUE(eventually(std::chrono::seconds(60), [&] { return http("GET", url).status == 404; }));
  std::filesystem::rename(segment + ".away", segment);
  thawed = true;
  EXPECT_EQ(http("GET", url).status, 200);
}

TEST(Pipelined, RequestsAreAnsweredUnderTheirOwnKeys) {
  Stack stack(options_with({}));
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  const auto ask = [&](const std::string& key) {
    return get_request("/api/v1/audio/generations/" + id, "Authorization: Bearer " + key + "\r\n");
  };
  const auto expect_next = [&](RawConnection& client, bool hers) {
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, hers ? 200 : 404) << response->body;
    EXPECT_EQ(response->body.find(id) != std::string::npos, hers) << response->body;
  };
  for (int round = 0; round < 4; ++round) {
    const Account bob = stack.account();  // Never seen before.
    ASSERT_EQ(stack.get(ann, id).status, 200) << "seen lately";
    RawConnection client(stack.api_port());
    if (round % 2 == 0) {
      ASSERT_TRUE(client.send(ask(ann.key) + ask(bob.key)));
      expect_next(client, true);
      expect_next(client, false);
    } else {
      ASSERT_TRUE(client.send(ask(bob.key) + ask(ann.key) + ask(bob.key)));
      expect_next(client, false);
      expect_next(client, true);
      expect_next(client, false);
    }
  }
}

}  // namespace
}  // namespace audiogen::test
