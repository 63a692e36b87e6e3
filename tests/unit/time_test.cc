// Points in time, read and written.
#include "common/base/time.h"

#include <gtest/gtest.h>

namespace audiogen {
namespace {

TEST(Time, ReadsWhatTheDatabaseWrites) {
  struct Case {
    const char* text;
    const char* full;
    const char* iso;
  };
  for (const Case& c :
       {Case{
            "2026-11-20 23:10:32.123456", "2026-11-20 23:10:32.123456", "2026-11-20T23:10:32.123Z"},
        Case{"2026-11-20 23:10:32", "2026-11-20 23:10:32.000000", "2026-11-20T23:10:32.000Z"},
        Case{"2026-11-20 23:10:32.5", "2026-11-20 23:10:32.500000", "2026-11-20T23:10:32.500Z"},
        Case{
            "2024-02-29 00:00:00.000001", "2024-02-29 00:00:00.000001", "2024-02-29T00:00:00.000Z"},
        Case{
            "1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999", "1969-12-31T23:59:59.999Z"},
        Case{"9999-12-31 23:59:59.999999",
             "9999-12-31 23:59:59.999999",
             "9999-12-31T23:59:59.999Z"}}) {
    const auto at = parse_db_time(c.text);
    ASSERT_TRUE(at) << c.text;
    EXPECT_EQ(format_db_time(*at), c.full);
    EXPECT_EQ(format_iso(*at), c.iso);
    EXPECT_EQ(parse_db_time(format_db_time(*at)), at);
  }
}

TEST(Time, CountsFromTheEpoch) {
  EXPECT_EQ(parse_db_time("1970-01-01 00:00:01")->time_since_epoch(), 1s);
  EXPECT_EQ(parse_db_time("2001-09-09 01:46:40")->time_since_epoch(), 1'000'000'000s);
}

TEST(Time, RefusesAnythingElse) {
  for (const char* text : {"",
                           "2026-11-20",
                           "2026-11-20 23:10",
                           "2026-11-20 23:10:3x",
                           "2026-11-20 23:10:32.",
                           "2026-11-20 23:10:32.1234567",
                           "2026-11-20 23:10:32,123456",
                           "2026-11-20 23:10:32.12345x",
                           "2026/11/20 23:10:32",
                           "2026-11-20T23:10:32Z",
                           "2026-02-29 00:00:00",
                           "0000-00-00 00:00:00",
                           "2026-13-01 00:00:00",
                           "2026-11-20 24:00:00",
                           "2026-11-20 23:60:00",
                           "2026-11-20 23:10:60"}) {
    EXPECT_FALSE(parse_db_time(text)) << text;
  }
}

TEST(Time, ReadsRfc3339WithAnyOffset) {
  for (const char* text : {"2026-11-20T23:10:32.123456Z",
                           "2026-11-20t23:10:32.123456z",
                           "2026-11-20T23:10:32.1234569Z",
                           "2026-11-21T00:40:32.123456+01:30",
                           "2026-11-20T15:10:32.123456-08:00",
                           "2026-11-20T23:10:32.123456-00:00"}) {
    const auto at = parse_iso(text);
    ASSERT_TRUE(at) << text;
    EXPECT_EQ(format_db_time(*at), "2026-11-20 23:10:32.123456") << text;
  }
  EXPECT_EQ(format_iso(*parse_iso("2027-01-01T00:00:00Z")), "2027-01-01T00:00:00.000Z");
  EXPECT_EQ(format_iso(*parse_iso("2027-01-01T00:00:00.5Z")), "2027-01-01T00:00:00.500Z");
}

TEST(Time, RefusesWhatIsNotRfc3339) {
  for (const char* text : {"",
                           "2026-11-20",
                           "2026-11-20T23:10Z",
                           "2026-11-20T23:10:32",
                           "2026-11-20 23:10:32Z",
                           "2026-11-20T23:10:32.Z",
                           "2026-11-20T23:10:32,5Z",
                           "2026-11-20T23:10:32.5",
                           "2026-11-20T23:10:32 Z",
                           "2026-11-20T23:10:32+0100",
                           "2026-11-20T23:10:32+01",
                           "2026-11-20T23:10:32+24:00",
                           "2026-11-20T23:10:32+01:60",
                           "2026-11-20T23:10:32+01:00x",
                           "2026-02-29T00:00:00Z",
                           "2026-11-20T24:00:00Z",
                           "2026-12-31T23:59:60Z",
                           "20261120T231032Z"}) {
    EXPECT_FALSE(parse_iso(text)) << text;
  }
}

}  // namespace
}  // namespace audiogen
