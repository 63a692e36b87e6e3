// Signed links, and the variables that ask for them.
#include "common/blob/link_signer.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/blob/blob_store.h"

namespace audiogen {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using Verdict = LinkSigner::Verdict;

const std::string kKey = "01j9x4tqkc7v2m8e5r0hfzw3dn-a0b1c2d3e4f5g6h7j8k9mnpqrs-24000.mp3";
const LinkSigner::Time kNow{seconds(1'800'000'000)};  // A whole minute.

LinkSigner signer() {
  return {{"0123456789abcdef"}, seconds(3600)};
}
std::string query(LinkSigner::Time now) {
  return signer().query(kKey, now).substr(1);
}

TEST(LinkSigner, WritesWhatItsDescriptionSays) {
  // Python: base64.urlsafe_b64encode(hmac.digest(key, name + b"\n1800003660", "sha256"))
  EXPECT_EQ(signer().query(kKey, kNow),
            "?expires=1800003660&signature=2bu7-OZ0xLsKb7q_kgKCMT3MgnPSazRgNOpw4s3Ph78");
}

TEST(LinkSigner, IsTheSameForAMinuteAndGoodForTheWholeTtl) {
  EXPECT_EQ(query(kNow), query(kNow + seconds(59)));
  EXPECT_NE(query(kNow), query(kNow + seconds(60)));
  for (const int made : {0, 1, 59, 60}) {
    const std::string link = query(kNow + seconds(made));
    EXPECT_EQ(signer().check(kKey, link, kNow + seconds(made + 3600)), Verdict::kValid);
    EXPECT_EQ(signer().check(kKey, link, kNow + seconds(made + 3661)), Verdict::kExpired);
  }
  EXPECT_EQ(signer().check(kKey, query(kNow), kNow + seconds(3659)), Verdict::kValid);
  EXPECT_EQ(signer().check(kKey, query(kNow), kNow + seconds(3660)), Verdict::kExpired);
}

TEST(LinkSigner, TakesNothingButWhatItSigned) {
  const std::string link = query(kNow);
  ASSERT_EQ(signer().check(kKey, link, kNow), Verdict::kValid);
  std::vector<std::string> wrong = {"",
                                    "expires=1800003660",
                                    "expires=1800003660&signature=",
                                    "signature=" + link.substr(link.rfind('=') + 1),
                                    "expires=1800009999" + link.substr(link.find('&')),
                                    "expires=" + link.substr(link.find('&')),
                                    link + "=",
                                    link + "&more=1",
                                    "more=1&" + link,
                                    "?" + link};
  for (std::size_t i = link.rfind('=') + 1; i < link.size(); ++i) {
    wrong.push_back(link);
    wrong.back()[i] = link[i] == 'A' ? 'B' : 'A';
  }
  for (const std::string& text : wrong) {
    EXPECT_EQ(signer().check(kKey, text, kNow), Verdict::kWrong) << text;
    EXPECT_EQ(signer().check(kKey, text, kNow + seconds(9999)), Verdict::kWrong) << text;
  }
  std::string other = kKey;
  other[30] = 'z';
  EXPECT_EQ(signer().check(other, link, kNow), Verdict::kWrong);
  EXPECT_EQ(LinkSigner({"another key 1234"}, seconds(3600)).check(kKey, link, kNow),
            Verdict::kWrong);
}

// The key is changed without a link that stops working: first everybody believes the new one, then
// signs with it, then forgets the old one.
TEST(LinkSigner, TwoKeysAreValidAtOnceAndTheFirstSigns) {
  const std::string fresh_key = "another key 1234";
  const LinkSigner before({"0123456789abcdef", fresh_key}, seconds(3600));
  const LinkSigner after({fresh_key, "0123456789abcdef"}, seconds(3600));
  const LinkSigner done({fresh_key}, seconds(3600));
  const std::string old_link = query(kNow);
  EXPECT_EQ(before.query(kKey, kNow), "?" + old_link);
  const std::string link = after.query(kKey, kNow).substr(1);
  EXPECT_EQ(after.query(kKey, kNow), done.query(kKey, kNow));
  for (const LinkSigner* signer : {&before, &after}) {
    EXPECT_EQ(signer->check(kKey, old_link, kNow), Verdict::kValid);
    EXPECT_EQ(signer->check(kKey, link, kNow), Verdict::kValid);
    EXPECT_EQ(signer->check(kKey, link, kNow + seconds(9999)), Verdict::kExpired);
  }
  EXPECT_EQ(done.check(kKey, old_link, kNow), Verdict::kWrong);
}

class BlobConfig : public testing::Test {
 protected:
  void SetUp() override {
    setenv("DATABASE_URL", "mysql://a:b@h/d", 1);
    setenv("AMQP_URL", "amqp://a:b@h/", 1);
    setenv("BLOB_URL", "file:///blobs", 1);
    clear();
  }
  void TearDown() override {
    clear();
    unsetenv("DATABASE_URL");
    unsetenv("AMQP_URL");
    unsetenv("BLOB_URL");
  }
  static void clear() {
    for (const char* name : {"CDN_SIGNING_KEY",
                             "CDN_SIGNING_KEY_OLD",
                             "BLOB_SIGNING_KEY",
                             "BLOB_SIGNING_KEY_OLD",
                             "OUTPUT_TTL_SECONDS",
                             "AWS_ACCESS_KEY_ID",
                             "AWS_SECRET_ACCESS_KEY"}) {
      unsetenv(name);
    }
  }
};

TEST_F(BlobConfig, LinksAreSignedOnlyWithAKey) {
  const auto plain = load_config(Program::kApi);
  ASSERT_TRUE(plain);
  EXPECT_FALSE(LinkSigner::from(*plain));
  setenv("CDN_SIGNING_KEY", "0123456789abcdef", 1);
  const auto by_default = load_config(Program::kApi);
  ASSERT_TRUE(by_default);
  EXPECT_EQ(LinkSigner::from(*by_default)->query(kKey, kNow), signer().query(kKey, kNow));
  setenv("OUTPUT_TTL_SECONDS", "60", 1);
  EXPECT_THAT(LinkSigner::from(*load_config(Program::kApi))->query(kKey, kNow),
              HasSubstr("=1800000120&"));
}

TEST_F(BlobConfig, BadValuesAreTold) {
  setenv("CDN_SIGNING_KEY", "tooshort", 1);
  setenv("OUTPUT_TTL_SECONDS", "59", 1);
  setenv("BLOB_SIGNING_KEY", "tooshort4bytes-4567890123456789", 1);
  const auto api = load_config(Program::kApi);
  ASSERT_FALSE(api);
  EXPECT_THAT(api.error(),
              AllOf(Contains(HasSubstr("CDN_SIGNING_KEY must be")),
                    Contains(HasSubstr("BLOB_SIGNING_KEY must be 32 characters or more")),
                    Contains(HasSubstr("OUTPUT_TTL_SECONDS must be")),
                    Not(Contains(HasSubstr("tooshort")))));
}

TEST_F(BlobConfig, AnS3BucketNeedsCredentialsInTheWorkerAlone) {
  setenv("BLOB_URL", "s3://audio?region=eu-west-3", 1);
  setenv("CDN_URL", "https://cdn.test", 1);
  EXPECT_TRUE(load_config(Program::kApi));
  const auto without = load_config(Program::kWorker);
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error(),
              AllOf(Contains(HasSubstr("AWS_ACCESS_KEY_ID is required")),
                    Contains(HasSubstr("AWS_SECRET_ACCESS_KEY is required"))));
  setenv("AWS_ACCESS_KEY_ID", "id", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t://with@signs", 1);
  const auto with = load_config(Program::kWorker);
  ASSERT_TRUE(with);
  EXPECT_EQ(with->s3.access_key_id, "id");
  EXPECT_EQ(with->s3.secret_key, "s3cr3t://with@signs");
}

TEST_F(BlobConfig, OfTwoKeysTheNewOneComesFirst) {
  setenv("CDN_SIGNING_KEY_OLD", "0123456789abcdef", 1);
  setenv("BLOB_SIGNING_KEY_OLD", "old-4567890123456789012345678901", 1);
  EXPECT_THAT(load_config(Program::kApi).error(),
              AllOf(Contains(HasSubstr("CDN_SIGNING_KEY_OLD goes with CDN_SIGNING_KEY")),
                    Contains(HasSubstr("BLOB_SIGNING_KEY_OLD goes with BLOB_SIGNING_KEY"))));
  setenv("CDN_SIGNING_KEY", "another key 1234", 1);
  setenv("BLOB_SIGNING_KEY", "new-4567890123456789012345678901", 1);
  const auto api = load_config(Program::kApi);
  const auto worker = load_config(Program::kWorker);
  ASSERT_TRUE(api);
  ASSERT_TRUE(worker);
  EXPECT_EQ(LinkSigner::from(*api)->check(kKey, query(kNow), kNow), Verdict::kValid);
  EXPECT_THAT(
      api->blob_signing_keys,
      testing::ElementsAre("new-4567890123456789012345678901", "old-4567890123456789012345678901"));
  EXPECT_EQ(worker->blob_signing_keys, api->blob_signing_keys);
  EXPECT_THAT(print_config(Program::kApi),
              AllOf(HasSubstr("CDN_SIGNING_KEY_OLD=***\n"),
                    HasSubstr("BLOB_SIGNING_KEY=***\n"),
                    HasSubstr("BLOB_SIGNING_KEY_OLD=***\n")));
}

TEST_F(BlobConfig, SecretsAreMaskedWhateverTheyLookLike) {
  setenv("CDN_SIGNING_KEY", "k3y://with@signs-and-more", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t://with@signs", 1);
  EXPECT_THAT(print_config(Program::kApi),
              AllOf(HasSubstr("CDN_SIGNING_KEY=***\n"), Not(HasSubstr("signs"))));
  EXPECT_THAT(print_config(Program::kWorker),
              AllOf(HasSubstr("AWS_SECRET_ACCESS_KEY=***\n"), Not(HasSubstr("signs"))));
}

}  // namespace
}  // namespace audiogen
