// Who waits for the same providers, and what is told of that.
#include "common/domain/route.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/domain/voices.h"

namespace audiogen {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A number that stands in a row means the same to a program of the next release.
TEST(Route, IsTheSameForAllThatAskTheSame) {
  const auto of = [](const std::string& prompt,
                     const std::optional<std::string>& voice,
                     int recordings = 0,
                     bool image = false) {
    GenerationRequest request;
    request.prompt = prompt;
    request.voice = voice;
    request.audio_references.assign(static_cast<std::size_t>(recordings), "https://a.example/b");
    if (image) {
      request.image_url = "https://a.example/c";
    }
    return static_cast<int>(route_of(request).number);
  };
  EXPECT_EQ(of("a quiet sea", std::nullopt), 0);
  EXPECT_EQ(of("another text, as long as it likes", std::nullopt), 0);
  EXPECT_EQ(of("a quiet sea", "aria"), 1);
  EXPECT_EQ(of("a quiet sea", "atlas"), 1);
  EXPECT_EQ(of("a quiet sea", std::nullopt, 1), 2);
  EXPECT_EQ(of("a quiet sea", "aria", 3), 3);
  EXPECT_EQ(of("a quiet sea", std::nullopt, 0, true), 4);
  EXPECT_EQ(of("a quiet sea", "aria", 0, true), 5);
  EXPECT_EQ(of("[rain] and words", std::nullopt), 6);
  EXPECT_EQ(of("[rain] and words", "aria"), 7);
  EXPECT_EQ(of("[a train far away]", std::nullopt), 12);
  EXPECT_EQ(of("a quiet sea", std::string(kSceneVoice)), 12) << "nobody speaks it";
  EXPECT_EQ(of("[a train far away]", "aria", 0, true), 17);
}

TEST(Route, SaysWhetherThereAreReferences) {
  std::set<int> with;
  for (std::uint8_t i = 0; i < kRoutes; ++i) {
    if (has_references(Route{i})) {
      with.insert(i);
    }
  }
  EXPECT_THAT(with, ElementsAre(2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17));
}

TEST(Route, LinesAreReadAsTheyWereWritten) {
  RouteLines lines;
  EXPECT_EQ(encode_lines(lines), "");
  EXPECT_EQ(parse_lines(""), lines);
  lines.bulk = 7;
  EXPECT_EQ(encode_lines(lines), "0,7");
  EXPECT_EQ(parse_lines("0,7"), lines);
  lines.express = 3;
  lines.of[Route{0}] = {};
  lines.of[Route{17}] = {.express = 1, .bulk = 2, .pace = 3, .takes = 4, .needs = 5};
  EXPECT_EQ(encode_lines(lines), "3,7;0,0,0,0,0,0;17,1,2,3,4,5");
  EXPECT_EQ(parse_lines(encode_lines(lines)), lines);
}

TEST(Route, WaitsAreReadAsTheyWereWritten) {
  const std::vector<RouteWait> waits = {
      {.route = Route{0}},
      {.route = Route{12}, .express = 1, .bulk = 2, .pace = 3, .takes = 4, .needs = 5}};
  EXPECT_EQ(encode_waits({}), "");
  EXPECT_EQ(encode_waits(waits), "0,0,0,0,0,0;12,1,2,3,4,5");
  EXPECT_EQ(parse_waits(encode_waits(waits)), waits);
}

// However much there is of it, it fits into the columns, and is read again.
TEST(Route, TheMostOfEverythingIsReadAgain) {
  constexpr std::uint64_t kMost = 1'000'000'000;
  RouteLines lines{.of = {}, .express = UINT64_MAX, .bulk = UINT64_MAX};
  std::vector<RouteWait> waits;
  for (std::uint8_t i = 0; i < kRoutes; ++i) {
    lines.of[Route{i}] = {.express = UINT64_MAX,
                          .bulk = UINT64_MAX,
                          .pace = UINT32_MAX,
                          .takes = UINT32_MAX,
                          .needs = UINT32_MAX};
    waits.push_back({.route = Route{i},
                     .express = UINT32_MAX,
                     .bulk = UINT32_MAX,
                     .pace = UINT32_MAX,
                     .takes = UINT32_MAX,
                     .needs = UINT32_MAX});
  }
  EXPECT_LE(encode_lines(lines).size(), kRouteTextMax);
  EXPECT_LE(encode_waits(waits).size(), kRouteTextMax);
  EXPECT_EQ(parse_waits(encode_waits(waits)).size(), kRoutes);
  RouteLines sum;
  for (int i = 0; i < 10; ++i) {
    sum.add(parse_lines(encode_lines(lines)));
  }
  EXPECT_EQ(sum.bulk, 10 * kMost);
  EXPECT_EQ(sum.of.at(Route{17}).bulk, 10 * kMost);
  EXPECT_EQ(sum.of.at(Route{17}).pace, kMost);
}

// An estimate less, and nobody fails.
TEST(Route, WhatIsNoSuchTextReadsAsNothing) {
  for (const char* const text : {"x",
                                 "1",
                                 "1,2,3",
                                 "1,2;",
                                 "1,2;0,1,2,3,4",
                                 "1,2;0,1,2,3,4,5,6",
                                 "1,2;0,1,2,3,4,-5",
                                 "1,2;0,1,2,3,4,5x",
                                 "1,2;0,1,2,3,4,99999999999999999999999"}) {
    const RouteLines read = parse_lines(text);
    EXPECT_THAT(read.of, IsEmpty()) << text;
  }
  EXPECT_EQ(parse_lines("1,2;0,1,2,3,4,-5"), RouteLines());
  EXPECT_THAT(parse_waits("0,1,2,3,4"), IsEmpty());
  EXPECT_THAT(parse_waits("0,1,2,3,4,5 6"), IsEmpty());
  EXPECT_THAT(parse_waits("18,1,2,3,4,5"), IsEmpty()) << "of a later release";
}

TEST(Route, LinesOfSeveralWorkersAreAddedUp) {
  RouteLines sum = parse_lines("1,2;0,1,2,3,4,5");
  sum.add(parse_lines("10,20;0,10,20,30,3,9;1,1,1,1,1,1"));
  EXPECT_EQ(encode_lines(sum), "11,22;0,11,22,33,4,9;1,1,1,1,1,1");
}

}  // namespace
}  // namespace audiogen
