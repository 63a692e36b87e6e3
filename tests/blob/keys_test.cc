// Names of blobs, their media types, and what BLOB_URL may say.
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/blob/blob_key.h"
#include "common/blob/blob_store.h"
#include "common/blob/s3_store.h"
#include "tests/blob/temporary_folder.h"

namespace audiogen {
namespace {

using testing::HasSubstr;

const std::string kTask = "01j9x4tqkc7v2m8e5r0hfzw3dn";
const std::string kRandom = "a0b1c2d3e4f5g6h7j8k9mnpqrs";
const std::string kSegment = "01m7z5s0123456789abc";
const std::string kStem = kTask + "-" + kRandom + "-";

TEST(BlobKeys, EveryNameMadeIsAKeyAndNamesItsTask) {
  const TaskId task = TaskId::make();
  std::set<std::string> seen;
  for (const OutputFormat format :
       {OutputFormat::kMp3, OutputFormat::kWav, OutputFormat::kPcm, OutputFormat::kOggOpus}) {
    for (const int rate : {8000, 44100, 48000}) {
      const std::string key = make_blob_name(task, format, rate);
      EXPECT_TRUE(is_blob_key(key)) << key;
      EXPECT_TRUE(key.starts_with(encode_base32(task.uuid) + "-")) << key;
      EXPECT_THAT(key, HasSubstr("-" + std::to_string(rate) + "."));
      EXPECT_TRUE(seen.insert(key).second);
      EXPECT_EQ(blob_task(key), task);
      EXPECT_TRUE(seen.insert(make_blob_name(task, format, rate)).second) << "guessable";
    }
  }
}

TEST(BlobKeys, APlaceGoesInFrontAndIsReadAgain) {
  const std::string name = kStem + "24000.mp3";
  for (const std::string& seal : {std::string(), std::string("0123456789abcdefgh")}) {
    const std::string key = make_blob_key({.segment = kSegment,
                                           .offset = 1'073'741'824,
                                           .length = 99'999'999,
                                           .name = name,
                                           .seal = seal});
    EXPECT_EQ(key,
              kSegment +
                  (seal.empty() ? "/1073741824-99999999/" : "/262144-99999999-" + seal + "/") +
                  name);
    EXPECT_LE(key.size(), kBlobKeyMax);
    const auto place = parse_blob_key(key);
    ASSERT_TRUE(place);
    EXPECT_EQ(place->segment, kSegment);
    EXPECT_EQ(place->offset, 1'073'741'824);
    EXPECT_EQ(place->length, 99'999'999U);
    EXPECT_EQ(place->name, name);
    EXPECT_EQ(place->seal, seal);
  }
  const std::string key = kSegment + "/0-5/" + name;
  EXPECT_EQ(blob_task(key).uuid, *decode_base32(kTask));
  EXPECT_EQ(parse_blob_key(name)->name, name);
  EXPECT_TRUE(parse_blob_key(name)->segment.empty());
}

TEST(BlobKeys, NothingElseIsAKey) {
  ASSERT_TRUE(is_blob_key(kStem + "24000.mp3"));
  ASSERT_TRUE(is_blob_key(kSegment + "/0-5/" + kStem + "24000.mp3"));
  for (const std::string& place :
       std::vector<std::string>{"/",
                                "//",
                                "../0-5/",
                                kSegment + "/",
                                kSegment + "/0-5",
                                kSegment + "/0-5//",
                                kSegment + "/0-/",
                                kSegment + "/-5/",
                                kSegment + "/-5-5/",
                                kSegment + "/0--5/",
                                kSegment + "/00-5/",
                                kSegment + "/0-05/",
                                kSegment + "/0-5x/",
                                kSegment + "/+0-5/",
                                kSegment + "/0-5/0-5/",
                                kSegment + "/9223372036854775808-5/",
                                kSegment + "/0-18446744073709551616/",
                                kSegment + "/0-18446744073709551615/",
                                kSegment + "/0-9223372036854775807/",
                                kSegment + "/0-100000000/",
                                kSegment + "/9223372036854775807-5/",
                                kSegment + "/9223372036854771712-5/",
                                kSegment + "/1-5/",
                                kSegment + "/4095-5/",
                                kSegment + "/0-5-/",
                                kSegment + "/0-5-0123456789abcdefg/",
                                kSegment + "/0-5-0123456789abcdefghj/",
                                kSegment + "/0-5-0123456789abcdefgu/",
                                kSegment + "/0-5-0123456789abcdefg-/",
                                kSegment + "/268435457-5-0123456789abcdefgh/",
                                kSegment + "/2251799813685248-5-0123456789abcdefgh/",
                                kSegment + "0/0-5/",
                                kSegment.substr(1) + "/0-5/",
                                kSegment.substr(1) + "./0-5/",
                                "U" + kSegment.substr(1) + "/0-5/",
                                "../" + kSegment.substr(3) + "/0-5/",
                                "/" + kSegment + "/0-5/"}) {
    EXPECT_FALSE(is_blob_key(place + kStem + "24000.mp3")) << place;
  }
  for (const std::string& key : std::vector<std::string>{
           "",
           "x.mp3",
           kStem,
           kStem + "24000",
           kStem + ".mp3",
           kStem + "24000.",
           kStem + "24000.exe",
           kStem + "24000.mp3.tmp",
           kStem + "24000.mp3/",
           kStem + "24000..mp3",
           kStem + "2400000.mp3",
           kStem + "-1.mp3",
           kStem + "24 00.mp3",
           kStem + std::string("24000.mp3\0", 10),
           std::string("\0", 1) + kStem.substr(1) + "24000.mp3",
           "/" + kStem.substr(1) + "24000.mp3",
           "../" + kStem.substr(3) + "24000.mp3",
           kTask + "-../../" + kRandom.substr(6) + "-24000.mp3",
           kTask + "/" + kRandom + "-24000.mp3",
           kTask + "-" + kRandom + "/24000.mp3",
           "I" + kStem.substr(1) + "24000.mp3",
           "i" + kStem.substr(1) + "24000.mp3",
           kTask + kRandom + "-24000.mp3",
       }) {
    EXPECT_FALSE(is_blob_key(key)) << key;
  }
}

TEST(BlobKeys, MediaTypes) {
  EXPECT_EQ(blob_content_type(kStem + "24000.mp3"), "audio/mpeg");
  EXPECT_EQ(blob_content_type(kStem + "8000.wav"), "audio/wav");
  EXPECT_EQ(blob_content_type(kStem + "48000.opus"), "audio/ogg; codecs=opus");
  EXPECT_EQ(blob_content_type(kStem + "44100.pcm"), "audio/pcm; rate=44100; channels=1; bits=16");
  EXPECT_EQ(blob_content_type(kSegment + "/0-5/" + kStem + "8000.pcm"),
            "audio/pcm; rate=8000; channels=1; bits=16");
}

struct S3Row {
  std::string url, objects, region;  // Without `objects`: refused, and `region` is in the error.
};

TEST(BlobUrl, S3AddressesAreTakenApart) {
  for (const S3Row& row : std::vector<S3Row>{
           {"s3://audio?endpoint=https://s3.example.com",
            "https://s3.example.com/audio/",
            "us-east-1"},
           {"s3://audio/?endpoint=http://127.0.0.1:9000/&region=eu-west-3",
            "http://127.0.0.1:9000/audio/",
            "eu-west-3"},
           {"s3://audio/a/b/?endpoint=https%3A%2F%2Fs3.example.com",
            "https://s3.example.com/audio/a/b/",
            "us-east-1"},
           {"s3://my.audio/x?region=eu-west-3",
            "https://my.audio.s3.eu-west-3.amazonaws.com/x/",
            "eu-west-3"},
           {"s3://audio", "", "region="},
           {"s3://", "", "bucket"},
           {"s3://a?region=x", "", "bucket"},
           {"s3://au@dio?region=x", "", "bucket"},
           {"s3://audio?zone=x", "", "parameter"},
           {"s3://audio?region", "", "parameter"},
           {"s3://audio?region=a/b", "", "region="},
           {"s3://audio/../x?region=a", "", "prefix"},
           {"s3://audio/a b?region=a", "", "prefix"},
           {"s3://audio?endpoint=ftp://host", "", "endpoint="},
           {"s3://audio?endpoint=https://user:pass@host", "", "endpoint="},
           {"https://audio", "", "file://"},
       }) {
    const auto address = parse_s3_url(row.url);
    ASSERT_EQ(static_cast<bool>(address), !row.objects.empty()) << row.url;
    if (address) {
      EXPECT_EQ(address->objects_url, row.objects);
      EXPECT_EQ(address->region, row.region);
    } else {
      EXPECT_THAT(address.error().message, HasSubstr("BLOB_URL: "));
      EXPECT_THAT(address.error().message, HasSubstr(row.region)) << row.url;
      EXPECT_THAT(address.error().message, testing::Not(HasSubstr("pass")));
    }
  }
}

TEST(BlobUrl, OpensTheStoreItNamesOrSaysWhatIsMissing) {
  const test::TemporaryFolder temporary;
  const auto folder = open_blob_store("file://" + temporary.path() + "/audio", {});
  ASSERT_TRUE(folder);
  EXPECT_NE(dynamic_cast<DirectoryStore*>(folder->get()), nullptr);
  const std::string url = "s3://audio?region=eu-west-3";
  const auto bucket = open_blob_store(url, {"id", "secret"});
  ASSERT_TRUE(bucket);
  EXPECT_NE(dynamic_cast<S3Store*>(bucket->get()), nullptr);

  EXPECT_THAT(open_blob_store(url, {}).error().message, HasSubstr("AWS_ACCESS_KEY_ID"));
  EXPECT_THAT(open_blob_store(url, {"id", ""}).error().message, HasSubstr("AWS_SECRET_ACCESS_KEY"));
  EXPECT_THAT(open_blob_store("s3://audio", {"id", "secret"}).error().message,
              HasSubstr("region="));
  EXPECT_THAT(open_blob_store("file:///proc/none", {}).error().message, HasSubstr("/proc/none"));
}

}  // namespace
}  // namespace audiogen
