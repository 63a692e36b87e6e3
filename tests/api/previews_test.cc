// The folder of the voices' samples.
#include "api/catalogue/previews.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/domain/voices.h"

namespace audiogen::api {
namespace {

class Folder : public testing::Test {
 protected:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "audiogen-previews-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Folder() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string folder_;
};

std::string all_of(const Preview& preview) {
  std::string out(static_cast<std::size_t>(preview.size), '\0');
  EXPECT_EQ(::pread(preview.fd.get(), out.data(), out.size(), 0), preview.size);
  return out;
}

bool none(const Result<std::optional<Preview>>& opened) {
  return opened && !*opened;
}

TEST_F(Folder, KeepsOneOfEachVoice) {
  const VoicePreviews previews(folder_ + "/not/there/yet");
  const auto count = [&] {
    const auto which = previews.which();
    EXPECT_EQ(which.size(), voices().size());
    return std::count(which.begin(), which.end(), true);
  };
  EXPECT_EQ(count(), 0);
  EXPECT_TRUE(none(previews.open("aria")));
  ASSERT_TRUE(previews.keep("aria", "first"));
  EXPECT_EQ(count(), 1);
  const auto first = previews.open("aria");
  ASSERT_TRUE(first && *first);
  EXPECT_EQ(all_of(**first), "first");

  ASSERT_TRUE(previews.keep("aria", "other"));
  EXPECT_EQ(count(), 1);
  const auto second = previews.open("aria");
  ASSERT_TRUE(second && *second);
  EXPECT_EQ(all_of(**second), "other");
  EXPECT_EQ(all_of(**first), "first") << "whoever reads it goes on";
  EXPECT_NE((*first)->etag, (*second)->etag);
  const auto left = std::filesystem::directory_iterator(folder_ + "/not/there/yet");
  EXPECT_EQ(std::distance(begin(left), end(left)), 1) << "nothing beside it";
}

// Only root can run the command on some machines, and the API is another user.
TEST_F(Folder, WhateverItsMakersUmaskTheApiReadsThem) {
  const auto usual = ::umask(077);
  const auto kept = VoicePreviews(folder_ + "/here/made").keep("aria", "one");
  ::umask(usual);
  ASSERT_TRUE(kept);
  const auto mode = [&](const std::string& name) {
    return std::filesystem::status(folder_ + name).permissions();
  };
  EXPECT_EQ(mode("/here/made/aria.mp3"), std::filesystem::perms(0644));
  EXPECT_EQ(mode("/here/made"), std::filesystem::perms(0755));
  EXPECT_EQ(mode("/here"), std::filesystem::perms(0755));
}

TEST_F(Folder, OpensSamplesOfVoicesAlone) {
  std::ofstream(folder_ + "/secret.mp3") << "x";
  std::filesystem::create_directory(folder_ + "/in");
  const VoicePreviews previews(folder_ + "/in");
  for (const char* const name : {"../secret", "secret", "", ".", "aria.mp3", "ARIA"}) {
    EXPECT_TRUE(none(previews.open(name))) << name;
  }
  std::filesystem::create_directory(folder_ + "/in/aria.mp3");
  ASSERT_EQ(::mkfifo((folder_ + "/in/sage.mp3").c_str(), 0600), 0);
  EXPECT_TRUE(none(previews.open("aria")));
  EXPECT_TRUE(none(previews.open("sage"))) << "and nobody waits for its writer";
  const auto which = previews.which();
  EXPECT_EQ(std::count(which.begin(), which.end(), true), 0);
}

TEST_F(Folder, ThatIsNotSetHasNone) {
  const VoicePreviews previews("");
  EXPECT_TRUE(none(previews.open("aria")));
  const auto which = previews.which();
  EXPECT_EQ(std::count(which.begin(), which.end(), true), 0);
}

TEST_F(Folder, ThatCannotBeWrittenIsSaid) {
  std::ofstream(folder_ + "/file") << "x";
  const VoicePreviews previews(folder_ + "/file");
  const auto kept = previews.keep("aria", "x");
  ASSERT_FALSE(kept);
  EXPECT_NE(kept.error().message.find(folder_), std::string::npos);
  EXPECT_FALSE(previews.open("aria")) << "nobody can tell";
}

}  // namespace
}  // namespace audiogen::api
