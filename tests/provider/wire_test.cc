// What all adapters read alike: Retry-After, base64, the look of audio, addresses, details.
#include "worker/providers/transport/wire.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/base64.h"
#include "tests/provider/fixture.h"
#include "worker/audio/codec.h"
#include "worker/audio/in_process_decoder.h"
#include "worker/audio/mp3_frames.h"

namespace audiogen {
namespace {

using test::tone_wav;
using namespace std::chrono_literals;

// 2026-11-21 00:00:00 UTC.
constexpr std::chrono::sys_seconds kNow{1795219200s};

TEST(RetryAfter, SecondsOrDateCappedAndGarbageIgnored) {
  const auto read = [](std::string_view text) {
    const auto out = wire::retry_after(text, kNow);
    return out ? static_cast<int>(out->count()) : -1;
  };
  EXPECT_EQ(read("2"), 2);
  EXPECT_EQ(read("60"), 60);
  EXPECT_EQ(read("61"), 60);
  EXPECT_EQ(read("99999999999999999999999"), 60);
  EXPECT_EQ(read("Sat, 21 Nov 2026 00:00:30 GMT"), 30);
  EXPECT_EQ(read("Sat, 21 Nov 2026 09:00:00 GMT"), 60);
  for (const char* bad : {"",
                          "0",
                          "-1",
                          "-9999",
                          "1.5",
                          "soon",
                          "2 seconds",
                          "1e3",
                          "Fri, 20 Nov 2026 23:59:00 GMT",
                          "Xxx, 99 Foo 2026"}) {
    EXPECT_EQ(read(bad), -1) << bad;
  }
}

TEST(Base64, ReadsWhatItWrites) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(decode_base64(test::encode_base64(bytes)), bytes);
    bytes += static_cast<char>(i * 7);
  }
}

TEST(Hex, ReadsPairsOfDigitsAndNothingElse) {
  EXPECT_EQ(wire::decode_hex(""), "");
  EXPECT_EQ(wire::decode_hex("00fFA1"), std::string("\x00\xFF\xA1", 3));
  for (const char* bad : {"0", "000", "0g", "g0", "0x00", " 00", "00 ", "\xC3\xA9"}) {
    EXPECT_FALSE(wire::decode_hex(bad)) << bad;
  }
}

TEST(Number, HasAFewDecimalsAndNoExponent) {
  EXPECT_EQ(wire::number(1.0), "1");
  EXPECT_EQ(wire::number(1.75), "1.75");
  EXPECT_EQ(wire::number(-12.0), "-12");
  EXPECT_EQ(wire::number(100.0), "100");
  EXPECT_EQ(wire::number(0.0000001), "0");
  EXPECT_EQ(wire::number(3.4), "3.4");
}

TEST(Base64, RefusesEverythingElse) {
  for (const char* bad : {"Q",
                          "QQ",
                          "QQ=",
                          "QQ===",
                          "=QQQ",
                          "Q=QQ",
                          "QQ=Q",
                          "====",
                          "QR==",
                          "QUF=",
                          "QU FB",
                          "QUFB\n",
                          "QUF-",
                          "QUF_",
                          "\xC3\xA9QQ"}) {
    EXPECT_FALSE(decode_base64(bad)) << bad;
  }
  EXPECT_EQ(decode_base64("QUFB"), "AAA");
  EXPECT_EQ(decode_base64(""), "");
}

std::string verdict(std::string bytes,
                    std::string_view type,
                    AudioType expected = AudioType::kWav) {
  const auto audio = wire::audio_of(std::move(bytes), type, expected, 24000);
  if (!audio) {
    EXPECT_EQ(audio.error().fault, Fault::kTryNext);
    return audio.error().detail;
  }
  switch (audio->type) {
    case AudioType::kPcmS16Le:
      return "pcm";
    case AudioType::kWav:
      return "wav";
    case AudioType::kMp3:
      return "mp3";
    case AudioType::kFlac:
      return "flac";
    case AudioType::kOgg:
      return "ogg";
  }
  return "";
}

TEST(AudioOf, GoesByTheBytes) {
  const std::string wav = tone_wav(0.2);
  EXPECT_EQ(verdict(wav, "audio/wav"), "wav");
  EXPECT_EQ(verdict(wav, "audio/mpeg"), "wav");
  EXPECT_EQ(verdict(wav, ""), "wav");
  EXPECT_EQ(verdict(wav, "Application/Octet-Stream; x=y"), "wav");
  EXPECT_EQ(verdict(wav, "audio/pcm", AudioType::kPcmS16Le), "wav");
  EXPECT_EQ(verdict("OggSxxxx", "audio/ogg"), "ogg");
  EXPECT_EQ(verdict("fLaCxxxx", "audio/flac"), "flac");
  EXPECT_EQ(verdict("ID3xxxxx", "audio/mpeg"), "mp3");
  const std::string header = "\xFF\xFB\x90\x64";  // of a frame of 417 bytes
  EXPECT_EQ(verdict(header + std::string(413, '\0') + header, "audio/mpeg"), "mp3");
  EXPECT_EQ(verdict(header + std::string(414, '\0') + header, "audio/mpeg"),
            "bad audio: unknown bytes");
  EXPECT_EQ(verdict("abcd", "audio/pcm", AudioType::kPcmS16Le), "pcm");
  // Samples may look like an MP3 frame.
  EXPECT_EQ(verdict("\xFF\xFB\x90\x64", "audio/pcm", AudioType::kPcmS16Le), "pcm");
}

TEST(AudioOf, RefusesWhatIsNoAudio) {
  const std::string wav = tone_wav(0.2);
  EXPECT_EQ(verdict(wav, "text/html"), "bad audio: the content type is not audio");
  EXPECT_EQ(verdict(wav, "application/json"), "bad audio: the content type is not audio");
  EXPECT_EQ(verdict("", "audio/wav"), "bad audio: empty");
  EXPECT_EQ(verdict("{\"error\":{}}", "audio/wav", AudioType::kPcmS16Le), "bad audio: text");
  EXPECT_EQ(verdict(" \n<!DOCTYPE html>", "", AudioType::kPcmS16Le), "bad audio: text");
  EXPECT_EQ(verdict("abc", "", AudioType::kPcmS16Le), "bad audio: half a sample");
  EXPECT_EQ(verdict("abcd", "audio/mpeg"), "bad audio: unknown bytes");
  EXPECT_EQ(verdict(wav.substr(0, wav.size() / 2), "audio/wav"), "bad audio: cut short");
  EXPECT_EQ(verdict(wav.substr(0, 30), "audio/wav"), "bad audio: cut short");
}

std::string tone_of(OutputFormat format) {
  std::vector<float> sound(48'000);
  for (std::size_t i = 0; i < sound.size(); ++i) {
    sound[i] = 0.3F * static_cast<float>(std::sin(static_cast<double>(i) * 0.1));
  }
  return *encode(format, sound, 24000);
}

// By the count of frames in its Xing tag, be it one or two off.
TEST(AudioOf, RefusesAnMp3ThatIsCutShort) {
  const std::string mp3 = tone_of(OutputFormat::kMp3);
  const std::string tag = std::string("ID3\4\0\0\0\0\0\4", 10) + "text";
  const std::size_t frame = read_mp3_header(mp3)->size;
  EXPECT_EQ(verdict(mp3, "audio/mpeg"), "mp3");
  EXPECT_EQ(verdict(tag + mp3 + "TAG" + std::string(125, ' '), "audio/mpeg"), "mp3");
  EXPECT_EQ(verdict(mp3 + mp3, "audio/mpeg"), "mp3");
  EXPECT_EQ(verdict(mp3.substr(0, mp3.size() - 2 * frame), "audio/mpeg"), "mp3");
  EXPECT_EQ(verdict(mp3.substr(frame, mp3.size() / 2), "audio/mpeg"), "mp3") << "without a tag";
  for (const std::size_t size :
       {mp3.size() / 2, mp3.size() / 2 + 1, mp3.size() - 3 * frame, mp3.size() - 2 * frame - 1}) {
    EXPECT_EQ(verdict(mp3.substr(0, size), "audio/mpeg"), "bad audio: cut short") << size;
    EXPECT_EQ(verdict(tag + mp3.substr(0, size), "audio/mpeg"), "bad audio: cut short") << size;
  }
}

// Not all who stream know which page is the last.
TEST(AudioOf, RefusesAnOggThatEndsWithinAPage) {
  const std::string opus = tone_of(OutputFormat::kOggOpus);
  const std::size_t last = opus.rfind("OggS");
  std::string endless = opus;
  endless[last + 5] = '\0';
  EXPECT_EQ(verdict(opus, "audio/ogg"), "ogg");
  EXPECT_EQ(verdict(endless, "audio/ogg"), "ogg");
  EXPECT_EQ(verdict(opus + "x", "audio/ogg"), "ogg");
  for (const std::size_t size : {opus.size() / 2, opus.size() - 1, last + 1, last + 27}) {
    EXPECT_EQ(verdict(opus.substr(0, size), "audio/ogg"), "bad audio: cut short") << size;
  }
}

// Of each a decoder would play the first piece alone, which would be delivered and charged.
TEST(AudioOf, AWavThatGoesOnBehindItsDataIsCutShort) {
  const auto with_size = [](std::string wav, std::size_t size) {
    const std::size_t at = wav.find("data") + 4;
    for (std::size_t byte = 0; byte < 4; ++byte) {
      wav[at + byte] = static_cast<char>(size >> (8 * byte));
    }
    return wav;
  };
  const std::string wav = tone_wav(0.5);
  const std::string cut = "bad audio: cut short";
  EXPECT_EQ(verdict(wav + wav, "audio/wav"), cut) << "a file for each sentence";
  EXPECT_EQ(verdict(wav + tone_wav(0.02), "audio/wav"), cut) << "however short";
  EXPECT_EQ(verdict(wav + with_size(wav, 0xFFFFFFFF), "audio/wav"), cut);
  EXPECT_EQ(verdict(with_size(wav, wav.size() / 4), "audio/wav"), cut)
      << "a size of its first piece";
  EXPECT_EQ(verdict(wav + "data" + wav.substr(4, 4) + wav, "audio/wav"), cut);
  EXPECT_EQ(verdict(wav + "x", "audio/wav"), "wav");
  EXPECT_EQ(verdict(wav + std::string(300'000, '\0'), "audio/wav"), "wav") << "a whole buffer";
  EXPECT_EQ(verdict(wav + std::string(8, '\0') + wav.substr(44), "audio/wav"), cut);
  EXPECT_EQ(verdict(wav + "LIST" + std::string("\x04\0\0\0abcd", 8), "audio/wav"), "wav");
  EXPECT_EQ(verdict(wav + "data" + std::string(4, '\0'), "audio/wav"), "wav") << "no more data";
}

TEST(AudioOf, StreamedWavHasNoLengthAndIsWholeAnyway) {
  const std::string wav = tone_wav(0.5, 24000, true);
  EXPECT_EQ(verdict(wav, "audio/wav"), "wav");
  const auto decoded = InProcessDecoder().decode({.bytes = wav, .type = AudioType::kWav});
  ASSERT_TRUE(decoded) << describe(decoded.error());
  EXPECT_EQ(decoded->pcm.samples.size(), 12'000U);
}

// What those write who do not know yet: somewhat less than the largest number, mostly.
TEST(AudioOf, NoFileIsAsLongAsItsWriterMakesBelieve) {
  for (const std::uint32_t size :
       {0xFFFFFFFFU, 0x7FFFFFFFU, 2147483547U, 0x7FFFF000U, 2'000'000'000U}) {
    std::string wav = tone_wav(0.2);
    const std::size_t at = wav.find("data") + 4;
    for (unsigned byte = 0; byte < 4; ++byte) {
      wav[at + byte] = static_cast<char>(size >> (8 * byte));
    }
    EXPECT_EQ(verdict(wav, "audio/wav"), "wav") << size;
  }
}

TEST(Fault, DetailsAreHarmlessAndShort) {
  http::ClientResponse response;
  response.status = 429;
  response.headers = {{"x-request-id", "req_1\r\nEvil: 1"}, {"retry-after", "7"}};
  const auto fault = wire::fault(
      Fault::kRetrySame, response, "rate_limit <script>" + std::string(500, 'x'), "x-request-id");
  EXPECT_EQ(fault.detail, "HTTP 429 rate_limit id=req_1");
  EXPECT_EQ(fault.retry_after, 7s);
  EXPECT_LE(wire::fault(Fault::kTryNext, response, std::string(500, 'x'), "x").detail.size(),
            wire::kDetailMax);
  EXPECT_FALSE(wire::fault(Fault::kTryNext, response, "x", "x").retry_after);
}

TEST(SameOrigin, SchemeHostAndPort) {
  const std::string base = "https://queue.fal.run/x";
  EXPECT_TRUE(wire::same_origin(base, "https://queue.fal.run/a/b?c"));
  EXPECT_TRUE(wire::same_origin(base, "https://QUEUE.fal.run:443/"));
  for (const char* other : {"http://queue.fal.run/",
                            "https://queue.fal.run:444/",
                            "https://fal.run/",
                            "https://queue.fal.run.evil.example/",
                            "https://user@queue.fal.run/",
                            "https://evil.example/https://queue.fal.run/",
                            "//queue.fal.run/",
                            "not an address",
                            ""}) {
    EXPECT_FALSE(wire::same_origin(base, other)) << other;
  }
}

TEST(Trace, IsForAddressesThatOperatorsNamedAlone) {
  const auto span = parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  http::ClientRequest request;
  wire::add_trace(request, std::nullopt);
  EXPECT_THAT(request.headers, testing::IsEmpty());
  wire::add_trace(request, span);
  EXPECT_THAT(request.headers, testing::ElementsAre("traceparent: " + traceparent(*span)));
  http::ClientRequest elsewhere;
  elsewhere.reach = http::Reach::kPublicOnly;
  wire::add_trace(elsewhere, span);
  EXPECT_THAT(elsewhere.headers, testing::IsEmpty());
}

TEST(RequestUuid, IsTheSameForTheSameKey) {
  EXPECT_EQ(wire::request_uuid("a"), wire::request_uuid("a"));
  EXPECT_NE(wire::request_uuid("a"), wire::request_uuid("b"));
  EXPECT_THAT(wire::request_uuid("a"),
              testing::MatchesRegex("[0-9a-f]+-[0-9a-f]+-8[0-9a-f]+-[89ab][0-9a-f]+-[0-9a-f]+"));
}

TEST(IsLoopback, NamesAndLiterals) {
  EXPECT_TRUE(wire::is_loopback("http://127.0.0.1:80/x"));
  EXPECT_TRUE(wire::is_loopback("http://localhost:80/x"));
  EXPECT_TRUE(wire::is_loopback("http://[::1]/"));
  EXPECT_FALSE(wire::is_loopback("http://127.evil.example/"));
  EXPECT_FALSE(wire::is_loopback("https://api.openai.com"));
}

}  // namespace
}  // namespace audiogen
