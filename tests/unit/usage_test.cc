// Spans of usage, its sums, and who prefers it as CSV.
#include "common/domain/usage.h"

#include <gtest/gtest.h>

#include "common/base/csv.h"

namespace audiogen {
namespace {

using namespace std::chrono_literals;

Instant at(std::string_view text) {
  return parse_iso(text).value();
}

TEST(UsageSpan, IsWidenedToWholeBuckets) {
  const Instant from = at("2026-11-20T22:59:59.999999Z"), to = at("2026-11-21T00:00:00.000001Z");
  const auto hours = usage_span(from, to, UsageBucket::kHour);
  ASSERT_TRUE(hours);
  EXPECT_EQ(hours->from, at("2026-11-20T22:00:00Z"));
  EXPECT_EQ(hours->to, at("2026-11-21T01:00:00Z"));
  const auto days = usage_span(from, to, UsageBucket::kDay);
  ASSERT_TRUE(days);
  EXPECT_EQ(days->from, at("2026-11-20T00:00:00Z"));
  EXPECT_EQ(days->to, at("2026-11-22T00:00:00Z"));
  // Before 1970 time is counted backwards, and buckets begin where they do after.
  const auto old =
      usage_span(at("1969-12-30T22:30:00Z"), at("1969-12-31T22:30:00Z"), UsageBucket::kDay);
  ASSERT_TRUE(old);
  EXPECT_EQ(old->from, at("1969-12-30T00:00:00Z"));
  EXPECT_EQ(old->to, at("1970-01-01T00:00:00Z"));
  // What is whole stays, whatever the offset that it was told in.
  const auto whole =
      usage_span(at("2026-11-20T01:00:00+01:00"), at("2026-11-21T00:00:00Z"), UsageBucket::kDay);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->from, at("2026-11-20T00:00:00Z"));
  EXPECT_EQ(whole->to, at("2026-11-21T00:00:00Z"));
}

TEST(UsageSpan, HasLimits) {
  const Instant from = at("2026-11-20T12:34:56Z");
  const auto fault = [&](Instant to, UsageBucket bucket) {
    const auto span = usage_span(from, to, bucket);
    return span ? "" : span.error().param.value_or("?") + ": " + span.error().message;
  };
  EXPECT_EQ(fault(from + 7 * 24h, UsageBucket::kHour), "");
  EXPECT_EQ(fault(from + 7 * 24h + 1us, UsageBucket::kHour),
            "to: to must be at most 7 days after from when bucket is hour.");
  EXPECT_EQ(fault(from + 92 * 24h, UsageBucket::kDay), "");
  EXPECT_EQ(fault(from + 92 * 24h + 1us, UsageBucket::kDay),
            "to: to must be at most 92 days after from when bucket is day.");
  EXPECT_EQ(fault(from, UsageBucket::kDay), "to: to must be later than from.");
  EXPECT_EQ(fault(from - 1us, UsageBucket::kHour), "to: to must be later than from.");
  EXPECT_EQ(fault(from + 1us, UsageBucket::kHour), "");
}

TEST(UsageCounts, Add) {
  UsageCounts sum{1, 2, 3, 4, 5, Units{6}};
  sum += {10, 20, 30, 40, 50, Units{60}};
  EXPECT_EQ(sum, (UsageCounts{11, 22, 33, 44, 55, Units{66}}));
}

TEST(Accept, CsvIsForThosePreferringIt) {
  for (const char* const accept : {"text/csv",
                                   "Text/CSV; charset=utf-8",
                                   "text/csv, */*;q=0.1",
                                   "application/json;q=0.5, text/csv",
                                   "text/*",
                                   "text/csv;q=0.002, application/json;q=0.001",
                                   "text/csv;header=present;q=0.3, application/*;q=0.2",
                                   "*/*;q=0.5, text/csv"}) {
    EXPECT_TRUE(prefers_csv(accept)) << accept;
  }
  for (const char* const accept : {"",
                                   "*/*",
                                   "application/json",
                                   "application/json, text/csv",
                                   "text/csv;q=0",
                                   "text/csv;q=0.5, */*",
                                   "text/csv;q=x",
                                   "text/csv;q=2.",
                                   "text/csvx",
                                   "text",
                                   "csv",
                                   "*/csv",
                                   "text/html, application/xhtml+xml, */*;q=0.8",
                                   ";;,,=/;q"}) {
    EXPECT_FALSE(prefers_csv(accept)) << accept;
  }
}

std::string field(std::string_view text) {
  std::string out;
  append_csv_field(out, text);
  return out;
}

TEST(Csv, FieldsAreQuotedWhereNeeded) {
  EXPECT_EQ(field("plain text"), "plain text");
  EXPECT_EQ(field(""), "");
  EXPECT_EQ(field("a,b"), "\"a,b\"");
  EXPECT_EQ(field("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(field("a\r\nb"), "\"a\r\nb\"");
  std::string line;
  append_csv_line(line, {"a", "", "b c"});
  EXPECT_EQ(line, "a,,b c\r\n");
}

TEST(Csv, NoTextBecomesAFormula) {
  EXPECT_EQ(field("=1+1"), "'=1+1");
  EXPECT_EQ(field("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(field("+1"), "'+1");
  EXPECT_EQ(field("-1+2"), "'-1+2");
  EXPECT_EQ(field("\t=1"), "'\t=1");
  EXPECT_EQ(field("\r=1"), "\"'\r=1\"");
  EXPECT_EQ(field("=HYPERLINK(\"x\",1)"), "\"'=HYPERLINK(\"\"x\"\",1)\"");
  EXPECT_EQ(field("-"), "'-");
  // Numbers stay numbers.
  EXPECT_EQ(field("-12.5"), "-12.5");
  EXPECT_EQ(field("12.5"), "12.5");
  EXPECT_EQ(field("a=b"), "a=b");
}

}  // namespace
}  // namespace audiogen
