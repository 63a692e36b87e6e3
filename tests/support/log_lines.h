// What a program has written, line by line of JSON.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "common/base/time.h"

namespace audiogen::test {

// Calls `use` with each line of `log` that is about `event`, in their order; when each was written.
inline std::vector<Instant> lines_about(
    const std::string& log,
    std::string_view event,
    const std::function<void(const rapidjson::Document&)>& use) {
  std::vector<Instant> out;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    rapidjson::Document document;
    document.Parse(line.c_str());
    if (!document.IsObject() || !document.HasMember("event") ||
        std::string_view(document["event"].GetString()) != event) {
      continue;
    }
    use(document);
    std::string time = document["time"].GetString();
    time.at(time.find('T')) = ' ';
    time.pop_back();  // Z
    const auto at = parse_db_time(time);
    EXPECT_TRUE(at.has_value()) << time;
    if (at) {
      out.push_back(*at);
    }
  }
  return out;
}

// What floods of something are summed up in is one line a second. One that is written late may have
// the next one close behind it.
inline void expect_one_a_second(const std::vector<Instant>& lines) {
  ASSERT_FALSE(lines.empty());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(lines.back() - lines.front());
  EXPECT_LE(lines.size(), 2 + static_cast<std::size_t>(seconds.count()));
}

}  // namespace audiogen::test
