// Traces of others: what is well-formed is continued, anything else counts as not given.
#include "common/domain/trace.h"

#include <string>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

constexpr const char* kGiven = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(Trace, WhatVersion00AllowsIsReadAndWritten) {
  const auto span = parse_traceparent(kGiven);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->flags, TraceSpan::kSampled);
  EXPECT_EQ(traceparent(*span), kGiven);
  EXPECT_EQ(
      unpack_trace_span({reinterpret_cast<const char*>(pack(*span).data()), TraceSpan::kBytes}),
      span);
}

TEST(Trace, WhatIsMalformedCountsAsNotGiven) {
  const std::string good = kGiven;
  const auto with = [&](std::size_t at, std::size_t count, const std::string& text) {
    return std::string(good).replace(at, count, text);
  };
  for (const std::string& bad : {
           std::string(),
           good.substr(0, 54),
           good + "0",
           good + "-",  // Version 00 ends there.
           good + "-00",
           " " + good,
           with(0, 2, "ff"),  // No version.
           with(0, 2, "0"),
           with(0, 2, "0g"),
           with(2, 1, "_"),
           with(35, 1, " "),
           with(52, 1, "."),
           with(3, 1, "4B"),
           with(3, 2, "4B"),                    // Upper case.
           with(3, 32, std::string(32, '0')),   // No trace,
           with(36, 16, std::string(16, '0')),  // no span.
           with(36, 2, "zz"),
           with(53, 2, "0x"),
           with(53, 2, "-1"),
       }) {
    EXPECT_FALSE(parse_traceparent(bad)) << bad;
  }
}

TEST(Trace, OfALaterVersionThePartInCommonCounts) {
  const std::string rest = std::string(kGiven).substr(2);
  for (const std::string& later :
       {"01" + rest, "cc" + rest + "-what-the-future-brings", "fe" + rest + "-"}) {
    const auto span = parse_traceparent(later);
    ASSERT_TRUE(span) << later;
    EXPECT_EQ(traceparent(*span), kGiven);
  }
  EXPECT_FALSE(parse_traceparent("01" + rest + "x"));
}

TEST(Trace, FlagsThatNobodyKnowsYetAreNotPassedOn) {
  const std::string head = std::string(kGiven).substr(0, 53);
  EXPECT_EQ(parse_traceparent(head + "ff")->flags, TraceSpan::kSampled | TraceSpan::kRandom);
  EXPECT_EQ(parse_traceparent(head + "fc")->flags, 0);
}

TEST(Trace, AChildIsOfTheSameTraceAndANewOneIsSampledByNobody) {
  const TraceSpan parent = *parse_traceparent(kGiven);
  const SpanNumber dice = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(traceparent(child_of(parent, dice)),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0102030405060708-01");
  EXPECT_EQ(traceparent(new_trace({9}, dice)),
            "00-09000000000000000000000000000000-0102030405060708-02");
}

TEST(Trace, WhatIsStoredIsReadOnlyWhole) {
  EXPECT_FALSE(unpack_trace_span(""));
  EXPECT_FALSE(unpack_trace_span(std::string(TraceSpan::kBytes, '\0')));
  EXPECT_FALSE(unpack_trace_span(std::string(TraceSpan::kBytes + 1, '\1')));
  EXPECT_TRUE(unpack_trace_span(std::string(TraceSpan::kBytes, '\1')));
}

}  // namespace
}  // namespace audiogen
