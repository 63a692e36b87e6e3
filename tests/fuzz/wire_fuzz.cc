// Any text for what the adapters share: Retry-After, base64, addresses, tokens. Each answer is held
// against another reading of the same text.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>
#include <openssl/evp.h>

#include "common/base/ascii.h"
#include "common/base/base64.h"
#include "common/base/check.h"
#include "worker/providers/transport/wire.h"

using namespace audiogen;

namespace {

std::string encode(const std::string& bytes) {
  std::vector<unsigned char> out(bytes.size() / 3 * 4 + 5);
  const int length = EVP_EncodeBlock(out.data(),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  return {out.begin(), out.begin() + length};
}

std::string host_of(const std::string& text) {
  CURLU* const url = curl_url();
  char* host = nullptr;
  std::string out;
  if (curl_url_set(url, CURLUPART_URL, text.c_str(), 0) == CURLUE_OK &&
      curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK) {
    out = host;
    curl_free(host);
  }
  curl_url_cleanup(url);
  return out;
}

void check_texts(std::string_view text) {
  constexpr std::chrono::sys_seconds kNow{std::chrono::seconds(1'795'219'200)};
  const auto wait = wire::retry_after(text, kNow);
  AG_CHECK(!wait || (wait->count() > 0 && *wait <= wire::kRetryAfterMax));

  const std::string token = wire::token(text);
  AG_CHECK(token.size() <= 60 && text.starts_with(token));
  for (const char c : token) {
    AG_CHECK(std::string_view(" \"'<>\\").find(c) == std::string_view::npos && c > ' ' && c <= '~');
  }

  const std::string encoded = wire::percent_encode(text);
  int length = 0;
  char* const back =
      curl_easy_unescape(nullptr, encoded.data(), static_cast<int>(encoded.size()), &length);
  AG_CHECK(encoded.empty() || std::string_view(back, static_cast<std::size_t>(length)) == text);
  AG_CHECK(encoded.find_first_of("/?#&= ") == std::string::npos);
  curl_free(back);
}

void check_base64(std::string_view text) {
  // One text for each value: what is read is written again as it was.
  if (const auto bytes = decode_base64(text)) {
    AG_CHECK(encode(*bytes) == text);
  }
  AG_CHECK(decode_base64(encode(std::string(text))) == text);
}

void check_addresses(const std::string& text) {
  if (wire::same_origin("https://queue.fal.run/x", text)) {
    AG_CHECK(ascii::lower(host_of(text)) == "queue.fal.run");
  }
  if (wire::is_loopback(text)) {
    const std::string host = host_of(text);
    AG_CHECK(host.starts_with("127.") || host == "[::1]" || host.size() == 9);
  }
}

void check_audio(std::string_view text) {
  for (const AudioType expected : {AudioType::kPcmS16Le, AudioType::kMp3}) {
    const auto audio = wire::audio_of(std::string(text), "", expected, 24000);
    AG_CHECK(!audio || audio->bytes == text);
    AG_CHECK(!audio || !text.starts_with("<html"));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_texts(text);
  check_base64(text);
  check_addresses(std::string(text));
  check_audio(text);
  std::string body(text);
  rapidjson::Document document;
  AG_CHECK(!wire::parse_object(body, document) || document.IsObject());
  return 0;
}
