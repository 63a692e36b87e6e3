// Signed links end to end: what a status read shows is what the file address takes.
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/files.h"
#include "api/routes.h"
#include "api/wire.h"
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
    const std::string text =
        api::render_task(task, {"svc-audio-1.0", "https://cdn.test/f", links_});
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
  std::optional<LinkSigner> links_ = LinkSigner("0123456789abcdef", seconds(60));
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
