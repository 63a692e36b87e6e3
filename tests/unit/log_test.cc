// Whatever is in a field, an event stays one line and one JSON object.
#include "common/base/log.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <unistd.h>

#include "common/base/metrics.h"
#include "common/base/unique_fd.h"

namespace audiogen {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string logged(std::string_view event, const std::string& value) {
  testing::internal::CaptureStderr();
  log::info(event, {{"value", value}, {"count", 3}, {"ready", true}, {"ratio", 0.5}});
  return testing::internal::GetCapturedStderr();
}

// The parsed line; a document that is no object when it is not one line of valid JSON.
rapidjson::Document parsed(const std::string& line) {
  rapidjson::Document out;
  EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
  out.Parse<rapidjson::kParseValidateEncodingFlag>(line.c_str());
  EXPECT_FALSE(out.HasParseError()) << line;
  return out;
}

TEST(Log, EveryValueSurvivesAsOneJsonLine) {
  log::init("test", "info", "json");
  for (const std::string& value : {std::string("plain"),
                                   std::string("line\r\nbreak\n{\"forged\":true}"),
                                   std::string("\x1B[31mred\x1B[0m\x07\x7F"),
                                   std::string("quote \" backslash \\ slash /"),
                                   std::string("nul\0inside", 10),
                                   std::string("日本語 é 😀"),
                                   std::string()}) {
    const auto line = logged("event", value);
    const auto json = parsed(line);
    ASSERT_TRUE(json.IsObject()) << line;
    const auto& member = json["value"];
    EXPECT_EQ(std::string(member.GetString(), member.GetStringLength()), value);
    EXPECT_EQ(json["count"].GetInt(), 3);
    EXPECT_TRUE(json["ready"].GetBool());
    EXPECT_STREQ(json["level"].GetString(), "info");
    EXPECT_STREQ(json["program"].GetString(), "test");
    EXPECT_THAT(line, Not(HasSubstr("\x1B")));
  }
}

// A frozen collector: whoever has something to say goes on with his work all the same.
TEST(Log, WhoeverDoesNotReadItStopsNobody) {
  log::init("test", "info", "json");
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const int room = ::fcntl(writer.get(), F_SETPIPE_SZ, 4096);
  ASSERT_GE(room, 4096);
  const UniqueFd before(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ASSERT_GE(::dup2(writer.get(), STDERR_FILENO), 0);
  writer.reset();
  const auto& lost = metrics::counter(
      "log_lines_lost_total", "Lines of the log that were lost, because whoever reads it did not");
  const double lost_before = lost.Value();
  constexpr int kLines = 1'000;
  auto written = std::async(std::launch::async, [] {
    for (int i = 0; i < kLines; ++i) {
      log::info("some event", {{"i", i}});
    }
  });
  const bool went_on = written.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  EXPECT_TRUE(went_on);
  const double gone = lost.Value() - lost_before;
  EXPECT_GT(gone, kLines / 2);
  // What is there is whole, and what is written once he reads again is there, too.
  std::string text;
  const auto take = [&] {
    char bytes[4096];
    const ssize_t count = ::read(reader.get(), bytes, sizeof bytes);
    text.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  };
  take();
  log::info("read again");
  take();
  ASSERT_GE(::dup2(before.get(), STDERR_FILENO), 0);
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(parsed(line + "\n").IsObject()) << line;
  }
  EXPECT_EQ(count, kLines - static_cast<int>(gone) + 1);
  EXPECT_THAT(text, HasSubstr("read again"));
}

// He reads all the time, only not as fast as many write at once: none of them loses a line to
// another.
TEST(Log, WhoeverReadsItLosesNothing) {
  log::init("test", "info", "json");
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  ASSERT_GE(::fcntl(writer.get(), F_SETPIPE_SZ, 4096), 4096);
  const UniqueFd before(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ASSERT_GE(::dup2(writer.get(), STDERR_FILENO), 0);
  writer.reset();
  constexpr std::size_t kThreads = 4, kLines = 500;
  auto read = std::async(std::launch::async, [&] {
    std::size_t lines = 0;
    char bytes[1024];
    while (lines < kThreads * kLines) {
      const ssize_t count = ::read(reader.get(), bytes, sizeof bytes);
      lines +=
          static_cast<std::size_t>(std::count(bytes, bytes + std::max<ssize_t>(count, 0), '\n'));
      if (count <= 0) {
        break;
      }
    }
    return lines;
  });
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([] {
        log::wait_for_reader(std::chrono::minutes(1));
        for (std::size_t line = 0; line < kLines; ++line) {
          log::info("some event", {{"line", line}});
        }
      });
    }
  }
  ASSERT_GE(::dup2(before.get(), STDERR_FILENO), 0);  // The last end to write to: else he waits.
  EXPECT_EQ(read.get(), kThreads * kLines);
}

TEST(Log, BytesThatAreNoTextStillMakeAValidLine) {
  log::init("test", "info", "json");
  for (const char* value : {"\xFF\xFE", "cut \xE6\x97", "\xC0\xAF", "\xED\xA0\x80"}) {
    const auto line = logged("event", value);
    EXPECT_TRUE(parsed(line).IsObject()) << line;
  }
}

TEST(Log, LongValuesAreCutBetweenCharacters) {
  log::init("test", "info", "json");
  std::string value(511, 'a');
  value += "é and more";
  const auto line = logged("event", value);
  const auto json = parsed(line);
  ASSERT_TRUE(json.IsObject());
  EXPECT_EQ(json["value"].GetString(), std::string(511, 'a'));
}

TEST(Log, TheEventIsEscapedToo) {
  log::init("test", "info", "json");
  EXPECT_STREQ(parsed(logged("a\"b\n", "x"))["event"].GetString(), "a\"b\n");
}

TEST(Log, WhatALineIsAboutComesFirstAndWhoWritesItLast) {
  log::init("test", "info", "json");
  log::identify("worker_id", "wrk_1");
  const std::array<log::Field, 2> about = {log::Field("request_id", "req_1"),
                                           log::Field("task_id", "aud_1")};
  testing::internal::CaptureStderr();
  log::info("event", about, {{"count", 3}});
  const auto line = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(parsed(line).IsObject()) << line;
  EXPECT_THAT(
      line, HasSubstr(R"("request_id":"req_1","task_id":"aud_1","count":3,"worker_id":"wrk_1"})"));
}

TEST(Log, TextIsOneLineToo) {
  log::init("test", "info", "text");
  const auto line = logged("event", "line\r\nbreak \x1B[31m");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(line.find('\r'), std::string::npos);
  EXPECT_THAT(line, Not(HasSubstr("\x1B")));
  log::init("test", "info", "json");
}

TEST(Log, LowerLevelsAreSilent) {
  log::init("test", "warn", "json");
  EXPECT_EQ(logged("event", "x"), "");
  EXPECT_FALSE(log::enabled(log::Level::kInfo));
  EXPECT_TRUE(log::enabled(log::Level::kError));
  log::init("test", "info", "json");
}

}  // namespace
}  // namespace audiogen
