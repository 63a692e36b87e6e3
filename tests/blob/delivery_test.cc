// Signed links end to end: what a status read shows is what the file address takes.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/files/files.h"
#include "api/generations/resource.h"
#include "api/server/routes.h"
#include "common/blob/blob_key.h"
#include "common/blob/blob_store.h"
#include "common/blob/link_signer.h"
#include "tests/blob/temporary_folder.h"
#include "tests/support/raw_http.h"

namespace audiogen {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class DeliveryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store_->put(make_blob_name(task_, OutputFormat::kMp3, 24000), "before it"));
    const auto key = store_->put(make_blob_name(task_, OutputFormat::kMp3, 24000), "audio");
    ASSERT_TRUE(key);
    key_ = *key;
    ASSERT_TRUE(server_.start());
  }

  test::RawResponse get(const std::string& path) const {
    test::RawConnection connection(server_.port());
    return connection.exchange(test::get_request(path)).value_or(test::RawResponse{});
  }
  std::string shown_url() const {
    TaskView task;
    task.id = TaskId::make();
    task.state = TaskState::kSucceeded;
    task.charged = Units{};
    task.output_key = key_;
    const std::string text = api::render_task(
        task, {"svc-audio-1.0", "https://cdn.test/f", links_}, api::Members::kInterface);
    const auto begin = text.find("https://cdn.test/f");
    return text.substr(begin, text.find('"', begin) - begin);
  }
  std::string path_of(const std::string& url) const {
    return url.substr(std::string_view("https://cdn.test/f").size());
  }

  test::TemporaryFolder folder_;
  const std::unique_ptr<DirectoryStore> store_ = *DirectoryStore::open(folder_.path());
  const TaskId task_ = TaskId::make();
  std::string key_;
  seconds retention_{0};
  std::optional<LinkSigner> links_ = LinkSigner({"0123456789abcdef"}, seconds(60));
  http::Server server_{
      http::ServerOptions{},
      [this](const http::Exchange& exchange) {
        api::serve_file(*store_, links_, retention_, exchange, exchange.request().path.substr(1));
      },
      api::render_server_error};
};

TEST_F(DeliveryTest, TheShownAddressWorks) {
  const auto reply = get(path_of(shown_url()));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "audio");
}

TEST_F(DeliveryTest, WithoutAValidSignatureThereIsNoSuchFile) {
  const std::string path = path_of(shown_url());
  for (const std::string& wrong : {"/" + key_,
                                   "/" + key_ + "?",
                                   path + "x",
                                   path.substr(0, path.size() - 1),
                                   "/" + key_ + "?expires=9999999999&signature=x"}) {
    const auto reply = get(wrong);
    EXPECT_EQ(reply.status, 404) << wrong;
    EXPECT_THAT(reply.body, HasSubstr("\"code\":\"not_found\""));
    EXPECT_THAT(reply.body, HasSubstr("There is no such file."));
  }
}

TEST_F(DeliveryTest, AnExpiredLinkIsToldApart) {
  const auto long_ago =
      std::chrono::floor<seconds>(std::chrono::system_clock::now()) - std::chrono::hours(1);
  const auto reply = get("/" + key_ + links_->query(key_, long_ago));
  EXPECT_EQ(reply.status, 403);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  EXPECT_EQ(reply.header("cache-control"), "no-store");
  EXPECT_THAT(reply.body, HasSubstr("{\"error\":{\"code\":\"link_expired\",\"message\":\""));
  EXPECT_THAT(reply.body, HasSubstr("\"request_id\":\"" + reply.header("x-request-id") + "\""));
}

TEST_F(DeliveryTest, WithoutASigningKeyAddressesArePlain) {
  links_.reset();
  EXPECT_EQ(shown_url(), "https://cdn.test/f/" + key_);
  EXPECT_EQ(get("/" + key_).status, 200);
  EXPECT_EQ(get("/" + key_ + "?anything=1").status, 200);
}

TEST_F(DeliveryTest, PartsAndValidators) {
  links_.reset();
  const auto whole = get("/" + key_);
  EXPECT_EQ(whole.header("etag"), "\"" + key_ + "\"");
  EXPECT_FALSE(whole.header("last-modified").empty());
  ASSERT_TRUE(store_->put(make_blob_name(task_, OutputFormat::kMp3, 24000), "after it"));
  EXPECT_EQ(get("/" + key_).header("last-modified"), whole.header("last-modified"));
  test::RawConnection connection(server_.port());
  const auto part = connection.exchange(test::get_request("/" + key_, "Range: bytes=3-\r\n"));
  ASSERT_TRUE(part);
  EXPECT_EQ(part->status, 206);
  EXPECT_EQ(part->body, "io");
  EXPECT_EQ(part->header("content-range"), "bytes 3-4/5");
  for (const char* const range : {"bytes=3-", "bytes=9-"}) {
    ASSERT_TRUE(
        connection.send("HEAD /" + key_ + " HTTP/1.1\r\nHost: x\r\nRange: " + range + "\r\n\r\n"));
    const auto head = connection.response(true);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->status, 200) << "a range is of GET alone";
    EXPECT_EQ(head->header("content-length"), "5");
  }
}

// The file has neighbours in its segment: other users' audio, with the names it is served by.
TEST_F(DeliveryTest, NoRangeReachesPastTheFile) {
  ASSERT_TRUE(store_->put(make_blob_name(task_, OutputFormat::kMp3, 24000), "after it"));
  struct Row {
    std::string range, body, content_range;  // Without `content_range`: 416.
  };
  const std::string path = path_of(shown_url());
  test::RawConnection connection(server_.port());
  for (const Row& row : std::vector<Row>{
           {"1-9223372036854775807", "udio", "bytes 1-4/5"},
           {"0-9223372036854775807", "audio", "bytes 0-4/5"},
           {"4-9223372036854775806", "o", "bytes 4-4/5"},
           {"1-9223372036854775808", "udio", "bytes 1-4/5"},
           {"0-18446744073709551616", "audio", "bytes 0-4/5"},
           {"-9223372036854775807", "audio", "bytes 0-4/5"},
           {"-18446744073709551615", "audio", "bytes 0-4/5"},
           {"9223372036854775807-9223372036854775807", "", ""},
           {"9223372036854775807-", "", ""},
           {"18446744073709551616-", "", ""},
       }) {
    const auto reply =
        connection.exchange(test::get_request(path, "Range: bytes=" + row.range + "\r\n"));
    ASSERT_TRUE(reply) << row.range;
    EXPECT_EQ(reply->status, row.content_range.empty() ? 416 : 206) << row.range;
    EXPECT_EQ(reply->body, row.body) << row.range;
    EXPECT_EQ(reply->header("content-length"), std::to_string(row.body.size())) << row.range;
    EXPECT_EQ(reply->header("content-range"),
              row.content_range.empty() ? "bytes */5" : row.content_range);
  }
}

struct RangeRow {
  std::string header;
  std::int64_t size;
  api::RangeKind kind;
  std::int64_t first = 0, length = 0;
};

TEST(ParseRange, UpToTheLargestNumbers) {
  using api::RangeKind;
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::string max = std::to_string(kMax);
  const std::string more = "9223372036854775808";
  for (const RangeRow& row : std::vector<RangeRow>{
           {"bytes=0-0", 5, RangeKind::kPart, 0, 1},
           {"bytes=0-4", 5, RangeKind::kPart, 0, 5},
           {"bytes=0-5", 5, RangeKind::kPart, 0, 5},
           {"bytes=4-", 5, RangeKind::kPart, 4, 1},
           {"bytes=5-", 5, RangeKind::kUnsatisfiable},
           {"bytes=-2", 5, RangeKind::kPart, 3, 2},
           {"bytes=-6", 5, RangeKind::kPart, 0, 5},
           {"bytes=-0", 5, RangeKind::kUnsatisfiable},
           {"bytes=-1", 0, RangeKind::kUnsatisfiable},
           {"bytes=0-", 0, RangeKind::kUnsatisfiable},
           {"bytes=0-" + max, 0, RangeKind::kUnsatisfiable},
           {"bytes=0-" + max, 5, RangeKind::kPart, 0, 5},
           {"bytes=1-" + max, 5, RangeKind::kPart, 1, 4},
           {"bytes=4-" + max, 5, RangeKind::kPart, 4, 1},
           {"bytes=4-" + more, 5, RangeKind::kPart, 4, 1},
           {"bytes=" + max + "-", 5, RangeKind::kUnsatisfiable},
           {"bytes=" + more + "-", 5, RangeKind::kUnsatisfiable},
           {"bytes=-" + max, 5, RangeKind::kPart, 0, 5},
           {"bytes=-" + more, 5, RangeKind::kPart, 0, 5},
           {"bytes=0-" + max, kMax, RangeKind::kPart, 0, kMax},
           {"bytes=1-" + max, kMax, RangeKind::kPart, 1, kMax - 1},
           {"bytes=9223372036854775806-" + more, kMax, RangeKind::kPart, kMax - 1, 1},
           {"bytes=-" + more, kMax, RangeKind::kPart, 0, kMax},
           // Malformed: the whole file.
           {"bytes=3-2", 5, RangeKind::kWhole},
           {"bytes=9-8", 5, RangeKind::kWhole},
           {"bytes=-", 5, RangeKind::kWhole},
           {"bytes=--1", 5, RangeKind::kWhole},
           {"bytes=-1-2", 5, RangeKind::kWhole},
           {"bytes=+1-2", 5, RangeKind::kWhole},
           {"bytes=0x1-2", 5, RangeKind::kWhole},
           {"bytes=1", 5, RangeKind::kWhole},
           {"bytes=0-1,3-4", 5, RangeKind::kWhole},
           {"items=0-1", 5, RangeKind::kWhole},
       }) {
    api::ByteRange range;
    EXPECT_EQ(api::parse_range(row.header, row.size, range), row.kind) << row.header;
    if (row.kind == RangeKind::kPart) {
      EXPECT_EQ(range.first, row.first) << row.header;
      EXPECT_EQ(range.length, row.length) << row.header;
    }
  }
}

// "No such file" would be for ever: what cannot be told now is worth asking for again.
TEST_F(DeliveryTest, AFileThatCannotBeOpenedIsNotMissing) {
  const std::string path = path_of(shown_url());
  test::RawConnection connection(server_.port());
  const std::string segment =
      folder_.path() + "/" + key_.substr(0, 6) + "/" + key_.substr(0, kSegmentName) + ".2";
  std::filesystem::rename(segment, segment + "-away");
  EXPECT_EQ(connection.exchange(test::get_request(path))->status, 404);
  std::filesystem::create_symlink(segment + "-away", segment);
  const auto reply = connection.exchange(test::get_request(path));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 503) << "it is there, but not to be read";
  EXPECT_FALSE(reply->header("retry-after").empty());
  EXPECT_EQ(reply->header("cache-control"), "no-store");
  EXPECT_THAT(reply->body, HasSubstr("\"code\":\"service_unavailable\""));
  std::filesystem::remove(segment);
  std::filesystem::rename(segment + "-away", segment);
  EXPECT_EQ(connection.exchange(test::get_request(path))->status, 200);
}

TEST_F(DeliveryTest, PastTheRetentionThereIsNoSuchFile) {
  links_.reset();
  const std::string old =
      make_blob_name(TaskId{first_uuid_at(std::chrono::floor<std::chrono::microseconds>(
                         std::chrono::system_clock::now() - std::chrono::hours(25)))},
                     OutputFormat::kMp3,
                     24000);
  const auto key = store_->put(old, "old");
  ASSERT_TRUE(key);
  EXPECT_EQ(get("/" + *key).body, "old") << "kept for ever";
  retention_ = std::chrono::hours(26);
  EXPECT_EQ(get("/" + *key).body, "old");
  retention_ = std::chrono::hours(24);
  EXPECT_EQ(get("/" + *key).status, 404);
  EXPECT_EQ(get("/" + key_).body, "audio");
}

}  // namespace
}  // namespace audiogen
