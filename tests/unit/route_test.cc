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

TEST(Route, AnExampleIsOfItsRoute) {
  for (std::uint8_t i = 0; i < kRoutes; ++i) {
    EXPECT_EQ(route_of(example_of(Route{i}, "atlas")), Route{i}) << static_cast<int>(i);
  }
  EXPECT_EQ(example_of(Route{1}, "atlas").voice, "atlas");
  EXPECT_EQ(example_of(Route{0}, "atlas").voice, std::nullopt);
}

TEST(Route, LinesAreReadAsTheyWereWritten) {
  RouteLines lines;
  EXPECT_EQ(encode_lines(lines), "");
  EXPECT_EQ(parse_lines(""), lines);
  lines.waiting.here.bulk = 7;
  EXPECT_EQ(encode_lines(lines), "0,0,0,7");
  EXPECT_EQ(parse_lines("0,0,0,7"), lines);
  lines.waiting = {.first = {.express = 1, .bulk = 2}, .here = {.express = 3, .bulk = 7}};
  lines.of[Route{0}] = {};
  lines.of[Route{17}] = {
      .before = {.first = {.express = 1, .bulk = 2}, .here = {.express = 3, .bulk = 4}},
      .alone = {.express = 8, .bulk = 9},
      .pace = 5,
      .takes = 6,
      .needs = 7};
  EXPECT_EQ(encode_lines(lines), "1,2,3,7;0,0,0,0,0,0,0,0,0,0;17,1,2,3,4,5,6,7,8,9");
  EXPECT_EQ(parse_lines(encode_lines(lines)), lines);
}

TEST(Route, WaitsAreReadAsTheyWereWritten) {
  const std::vector<RouteWait> waits = {
      {.route = Route{0}},
      {.route = Route{12}, .express = 1, .bulk = 2, .pace = 3, .share = 4, .takes = 5, .needs = 6}};
  EXPECT_EQ(encode_waits({}), "");
  EXPECT_EQ(encode_waits(waits), "0,0,0,0,0,0,0;12,1,2,3,4,5,6");
  EXPECT_EQ(parse_waits(encode_waits(waits)), waits);
}

// However much there is of it, it fits into the columns, and is read again.
TEST(Route, TheMostOfEverythingIsReadAgain) {
  constexpr std::uint64_t kMost = 1'000'000'000;
  const Counted counted{.first = {.express = UINT64_MAX, .bulk = UINT64_MAX},
                        .here = {.express = UINT64_MAX, .bulk = UINT64_MAX}};
  RouteLines lines{.of = {}, .waiting = counted};
  std::vector<RouteWait> waits;
  for (std::uint8_t i = 0; i < kRoutes; ++i) {
    lines.of[Route{i}] = {.before = counted,
                          .alone = {.express = UINT32_MAX, .bulk = UINT32_MAX},
                          .pace = UINT32_MAX,
                          .takes = UINT32_MAX,
                          .needs = UINT32_MAX};
    waits.push_back({.route = Route{i},
                     .express = UINT32_MAX,
                     .bulk = UINT32_MAX,
                     .pace = UINT32_MAX,
                     .share = UINT32_MAX,
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
  EXPECT_EQ(sum.waiting.all().bulk, 10 * kMost);
  EXPECT_EQ(sum.of.at(Route{17}).before.all().bulk, 10 * kMost);
  EXPECT_EQ(sum.of.at(Route{17}).pace, kMost);
  EXPECT_EQ(sum.of.at(Route{17}).takes, kMost);
}

// An estimate less, and nobody fails.
TEST(Route, WhatIsNoSuchTextReadsAsNothing) {
  for (const char* const text : {"x",
                                 "1",
                                 "1,2,3",
                                 "1,2,3,4;",
                                 "1,2,3,4;0,1,2,3,4,5,6,7,8",
                                 "1,2,3,4;0,1,2,3,4,5,6,7,8,9,10",
                                 "1,2,3,4;0,1,2,3,4,5,6,7,8,-9",
                                 "1,2,3,4;0,1,2,3,4,5,6,7,8,9x",
                                 "1,2,3,4;0,1,2,3,4,5,6,7,8,99999999999999999999999"}) {
    EXPECT_THAT(parse_lines(text).of, IsEmpty()) << text;
  }
  EXPECT_EQ(parse_lines("1,2,3,4;0,1,2,3,4,5,6,7,8,-9"), RouteLines());
  EXPECT_THAT(parse_waits("0,1,2,3,4,5"), IsEmpty());
  EXPECT_THAT(parse_waits("0,1,2,3,4,5,6 7"), IsEmpty());
  EXPECT_THAT(parse_waits("18,1,2,3,4,5,6"), IsEmpty()) << "of a later release";
}

TEST(Route, LinesOfSeveralWorkersAreAddedUp) {
  RouteLines sum = parse_lines("1,2,1,2;0,1,2,1,2,10,40,5,6,9");
  sum.add(parse_lines("10,20,10,25;0,10,20,10,25,90,10,9,7,8;1,1,1,1,1,1,1,1,1,1"));
  EXPECT_EQ(encode_lines(sum), "11,22,10,25;0,11,22,10,25,100,13,9,7,9;1,1,1,1,1,1,1,1,1,1")
      << "one call of ten takes 40 s, the others 10; and the longest of each alone";
  sum.add(parse_lines("0,0,0,0;0,0,0,90,90,1,900,9,0,0"));
  EXPECT_EQ(sum.of.at(Route{0}).takes, 22U) << "one slow worker of many is not all of them";
  EXPECT_EQ(sum.of.at(Route{0}).alone.bulk, 9U) << "also of one that can do nothing now";
  EXPECT_EQ(sum.waiting.all(), (LaneCounts{.express = 11, .bulk = 25}))
      << "what waits at one of them waits, whoever heard of it first";
}

// One that has just begun knows of no call yet.
TEST(Route, WhereThePaceOfALineIsNotKnownThatOfAllIsNot) {
  const char* const known = "0,9,0,9;0,0,9,0,9,100,1,1,9,9";
  const char* const unknown = "0,9,0,9;0,0,9,0,9,0,0,0,0,0";
  for (const auto& order :
       {std::vector{known, unknown}, {unknown, known}, {known, unknown, known}}) {
    RouteLines sum;
    for (const char* const worker : order) {
      sum.add(parse_lines(worker));
    }
    EXPECT_EQ(sum.of.at(Route{0}).pace, 0U);
  }
  for (const auto& order : {std::vector{known, unknown}, {unknown, known}}) {
    RouteLines sum;
    for (const char* const worker : order) {
      sum.add(parse_lines(worker));
    }
    EXPECT_FALSE(sum.of.at(Route{0}).is_known());
  }
  RouteLines sum = parse_lines(known);
  sum.add(parse_lines("0,9,0,9;0,0,9,0,9,0,1,1,0,0"));
  EXPECT_EQ(sum.of.at(Route{0}).pace, 100U) << "it has no place of its account now";
  EXPECT_TRUE(sum.of.at(Route{0}).is_known());
  sum.add(parse_lines("0,0,0,0;0,0,0,0,0,0,0,0,0,0"));
  EXPECT_EQ(sum.of.at(Route{0}).pace, 100U) << "nobody waits there";
}

}  // namespace
}  // namespace audiogen
