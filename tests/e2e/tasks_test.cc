// Tasks from creation to delivery: audio, price, files, cancellation, the worker's own failures.
#include <atomic>
#include <fstream>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "common/base/unique_fd.h"
#include "common/domain/task.h"
#include "tests/support/places.h"
#include "tests/support/stack.h"

namespace audiogen::test {
namespace {

double number(const rapidjson::Document& document, const char* name) {
  return document[name].GetDouble();
}

// It is started again and again by whoever watches it, and what it took would be lost each time.
TEST(Task, AWorkerThatCannotHaveItsPortTakesNone) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, Stack::body()).text("id");
  // Due for a sweeper, which looks as soon as it is there.
  stack.database().execute(
      store::Sql("UPDATE tasks SET wake_at=UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE, "
                 "next_run_at=UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE"));
  auto variables = stack.environment();
  variables["OPS_LISTEN"] = stack.ops_url().substr(std::string("http://").size());
  const Output refused = run({program_path("audio-worker")}, variables);
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_EQ(stack.database().number(store::Sql("SELECT SUM(claims) FROM tasks")), 0);
  stack.start_worker();
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
}

// It took requests at its public port, found its other one taken, and left: who had created
// something heard nothing of it, and again a second later.
TEST(Task, AnApiThatCannotHaveItsPortsTakesNoRequest) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  auto variables = stack.environment();
  variables["DATABASE_URL"] = stack.database_url("api");
  const std::uint16_t port = free_port();
  variables["LISTEN"] = "127.0.0.1:" + std::to_string(port);
  variables["OPS_LISTEN"] = stack.ops_url().substr(std::string("http://").size());
  std::atomic<int> taken{0};
  {
    const std::jthread client([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const bool open =
            ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
        sockaddr_in own{};
        socklen_t length = sizeof own;
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length);
        // Who asks long enough for a port that nobody has is given it, and meets himself.
        taken += open && own.sin_port != address.sin_port ? 1 : 0;
        std::this_thread::yield();
      }
    });
    const Output refused = run({program_path("audio-api"), "serve"}, variables);
    EXPECT_EQ(refused.code, 1) << refused.out;
  }
  EXPECT_EQ(taken, 0);
}

TEST(Task, SucceedsIsPlayableAndChargesItsSeconds) {
  Stack stack;
  const Account ann = stack.account(1000);
  const std::string id =
      stack
          .create(
              ann,
              R"({"model":"svc-audio-1.0","prompt":"The quick brown fox jumps over the lazy dog.","output_format":"wav"})")
          .text("id");
  const Reply done = stack.wait_final(ann, id);
  ASSERT_EQ(done.text("status"), "succeeded") << done.body;
  EXPECT_EQ(done.text("error"), "null");
  EXPECT_EQ(done.text("output.format"), "wav");
  const double seconds = std::stod(done.text("output.duration_seconds"));
  EXPECT_GT(seconds, 1.0);
  EXPECT_LT(seconds, 8.0);
  // Under eight seconds: the minimum charge.
  EXPECT_EQ(done.text("usage.credits"), "10");
  EXPECT_EQ(done.text("billing"),
            R"({"reserved_credits":150,"charged_credits":10,"returned_credits":140})");
  const auto user = stack.admin({"user", "show", "--user", ann.user});
  EXPECT_EQ(number(user, "available_credits"), 990);
  EXPECT_EQ(number(user, "reserved_credits"), 0);

  const std::string url = done.text("output.url");
  EXPECT_TRUE(url.starts_with(stack.public_url() + "/files/"));
  const Reply file = http("GET", url);
  ASSERT_EQ(file.status, 200);
  EXPECT_EQ(file.header("content-type"), "audio/wav");
  EXPECT_EQ(file.header("accept-ranges"), "bytes");
  EXPECT_EQ(file.body.substr(0, 4), "RIFF");
  // 44 bytes of header, then 16-bit samples at 24 kHz: the price is for exactly what is delivered.
  EXPECT_NEAR(static_cast<double>(file.body.size() - 44) / 2 / 24000, seconds, 0.0006);
  EXPECT_EQ(http("HEAD", url).header("content-length"), std::to_string(file.body.size()));
  const Reply part = http("GET", url, {"Range: bytes=4-9"});
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, file.body.substr(4, 6));
  EXPECT_EQ(part.header("content-range"), "bytes 4-9/" + std::to_string(file.body.size()));
  EXPECT_EQ(http("GET", url, {"Range: bytes=-10"}).body, file.body.substr(file.body.size() - 10));
  EXPECT_EQ(http("GET", url, {"Range: bytes=999999999-"}).status, 416);
  EXPECT_EQ(http("GET", url, {"If-None-Match: " + file.header("etag")}).status, 304);
  EXPECT_EQ(http("GET", url + "x").status, 404);
  EXPECT_EQ(http("POST", url).status, 405);
  stack.database().expect_invariants();
}

TEST(Task, LongAudioIsChargedByTheMinute) {
  Stack stack;
  const Account ann = stack.account(1000);
  std::string text;
  while (text.size() < 1900) {
    text += "This is a rather long sentence about nothing in particular. ";
  }
  const std::string id =
      stack
          .create(ann,
                  R"({"model":"svc-audio-1.0","output_format":"pcm","speed":0.5,"prompt":")" +
                      text + R"("})")
          .text("id");
  const Reply done = stack.wait_final(ann, id, std::chrono::seconds(120));
  ASSERT_EQ(done.text("status"), "succeeded") << done.body;
  // More than two minutes of speech: cut at exactly 120 s, and charged the whole reservation.
  EXPECT_EQ(done.text("output.duration_seconds"), "120.0");
  EXPECT_EQ(done.text("usage.credits"), "150");
  const Reply file = http("GET", done.text("output.url"));
  EXPECT_EQ(file.body.size(), 120U * 24000U * 2U);
  EXPECT_EQ(file.header("content-type"), "audio/pcm; rate=24000; channels=1; bits=16");
}

TEST(Task, WhatNoProviderCanServeFailsWithAFullRefund) {
  Stack stack;
  const Account ann = stack.account(1000);
  const struct {
    const char* body;
    std::string_view message;
  } rows[] = {
      {R"({"model":"svc-audio-1.0","prompt":"x","image_url":"https://images.example.com/i.png"})",
       failure_message(FailureCode::kUnsupportedInput)},
      {R"({"model":"svc-audio-1.0","prompt":"   "})",
       failure_message(FailureCode::kUnsupportedInput)},
      // Tibetan, which would be spelled out and billed.
      {R"({"model":"svc-audio-1.0","prompt":"བོད་ཡིག"})", kNoVoiceMessage},
  };
  for (const auto& [body, message] : rows) {
    const Reply done = stack.wait_final(ann, stack.create(ann, body).text("id"));
    EXPECT_EQ(done.text("status"), "failed") << body;
    EXPECT_EQ(done.text("error.code"), "unsupported_input") << done.body;
    EXPECT_EQ(done.text("error.message"), message) << body;
    EXPECT_EQ(done.text("error.retriable"), "false");
    EXPECT_EQ(done.text("output"), "null");
    EXPECT_EQ(done.text("usage"), "null");
    EXPECT_EQ(done.text("billing"),
              R"({"reserved_credits":150,"charged_credits":0,"returned_credits":150})");
  }
  EXPECT_EQ(number(stack.admin({"user", "show", "--user", ann.user}), "available_credits"), 1000);
  stack.database().expect_invariants();
}

TEST(Task, CanceledByTheOperatorIsRefundedAndStaysCanceled) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account(1000);
  const std::string id = stack.create(ann, Stack::body(), {"Idempotency-Key: k"}).text("id");
  stack.admin({"task", "cancel", id});
  const Reply canceled = stack.get(ann, id);
  EXPECT_EQ(canceled.text("status"), "canceled");
  EXPECT_EQ(canceled.text("error"), "null");
  EXPECT_EQ(number(stack.admin({"user", "show", "--user", ann.user}), "available_credits"), 1000);
  EXPECT_NE(stack.admin_raw({"task", "cancel", id}).code, 0);
  // A worker that comes now does nothing with it; a replay shows it as it stands.
  stack.start_worker();
  const std::string other = stack.create(ann, Stack::body()).text("id");
  EXPECT_EQ(stack.wait_final(ann, other).text("status"), "succeeded");
  EXPECT_EQ(stack.create(ann, Stack::body(), {"Idempotency-Key: k"}).text("status"), "canceled");
  stack.database().expect_invariants();
}

TEST(Task, ManyAtOnceOnTwoWorkersAreChargedOnceEach) {
  Stack::Options options;
  options.workers = 2;
  options.environment = {{"RATE_LIMIT_CREATE_BURST", "1000"}};
  Stack stack(options);
  const Account ann = stack.account(100'000);
  std::vector<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    ids.push_back(stack.create(ann, Stack::body("Number " + std::to_string(i))).text("id"));
  }
  for (const std::string& id : ids) {
    EXPECT_EQ(stack.wait_final(ann, id, std::chrono::seconds(120)).text("status"), "succeeded");
  }
  EXPECT_EQ(number(stack.admin({"user", "show", "--user", ann.user}), "available_credits"),
            100'000 - 100 * 10);
  stack.database().expect_invariants();
}

TEST(Task, WaitingTasksRunWhenAWorkerComes) {
  Stack::Options options;
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  EXPECT_EQ(stack.admin({"queue"})["ready"].GetUint64(), 1U);
  stack.start_worker();
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  const auto shown = stack.admin({"task", "show", id});
  EXPECT_EQ(shown["attempts"].Size(), 1U);
  EXPECT_EQ(shown["ledger"].Size(), 2U);
  EXPECT_EQ(stack.admin({"queue"})["ready"].GetUint64(), 0U);
}

TEST(Worker, StopsGracefullyOnSigterm) {
  Stack stack;
  const Account ann = stack.account();
  const std::string id = stack.create(ann, Stack::body()).text("id");
  stack.wait_final(ann, id);
  stack.worker(0).signal(15);
  EXPECT_EQ(stack.worker(0).wait(std::chrono::seconds(30)), 0) << stack.worker(0).log();
  stack.api().signal(15);
  EXPECT_EQ(stack.api().wait(std::chrono::seconds(30)), 0) << stack.api().log();
}

}  // namespace
}  // namespace audiogen::test
