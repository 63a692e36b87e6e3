// What the adapters' wire formats have in common. Pure functions. Text of a provider never passes
// through: details are our own words and, at most, a code or an id of harmless characters.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <rapidjson/document.h>

#include "common/base/result.h"
#include "common/domain/provider_price.h"
#include "common/http/client.h"
#include "worker/audio/audio.h"
#include "worker/audio/decoder.h"
#include "worker/chain/provider.h"

namespace audiogen::wire {

// Bytes of an answer with audio: the longest there may be, or as text, which hexadecimal digits
// make twice as long. Cut off it would be paid, and made again. How many are in memory at once is
// the client's to say.
inline constexpr std::size_t kAudioAnswerMax = 2 * kMediaBytesMax;
inline constexpr std::size_t kDetailMax = 200;                    // bytes; the column's size
inline constexpr auto kRetryAfterMax = std::chrono::seconds(60);  // longer is for the retry policy

// Retry-After (RFC 9110 10.2.3): whole seconds or an HTTP date, at most kRetryAfterMax. Nothing
// when absent, past or not understood.
std::optional<std::chrono::seconds> retry_after(std::string_view value,
                                                std::chrono::sys_seconds now);
// The same of an answer that has just come.
std::optional<std::chrono::seconds> retry_after_of(const http::ClientResponse& response);

// "12.5" as thousandths; nullopt when absent, not a plain decimal or out of range.
std::optional<Thousandths> thousandths(std::string_view value);
// The same of a member that is a number.
std::optional<Thousandths> thousandths_in(const rapidjson::Value& object, const char* name);

// At most 60 characters of [A-Za-z0-9_.:-]; other characters end it.
std::string token(std::string_view text);

// A fault with "HTTP <status> <code> id=<id>"; retry_after is kept for brief ones alone.
// `id_header`: the lower-case name of the header with the provider's own request id.
ProviderFault fault(Fault kind,
                    const http::ClientResponse& response,
                    std::string_view code,
                    const char* id_header);

// The same where the provider's own request id stands elsewhere than in a header; "": nowhere.
ProviderFault fault_with_id(Fault kind,
                            const http::ClientResponse& response,
                            std::string_view code,
                            std::string_view id);

// The same for what came as audio and is none, whatever it cost there.
ProviderFault no_audio(const http::ClientResponse& response,
                       std::string_view code,
                       std::string_view id);

// No response: what can be known of the other side.
ProviderFault fault_of(const http::ClientError& error);

// The answer to a status that has no code of its own to go by: 408, 429, 500, 502, 503 may pass;
// 504, 520, 524 lost something that may go on; 413 is about this input; 401 to 404 about our key,
// account, address or model; the rest is between us and the provider, 400 and 422 among it as long
// as nobody says what is not liked (blame.h).
Fault fault_of_status(int status);

// Does Cloudflare, which stands before several providers, say that it does not reach them
// (developers.cloudflare.com, "5xx errors")? It is likely to last, so who wants something anew asks
// another. A job that is under way there goes on.
bool is_out_of_reach(int status);

// Does such an answer about a job that is under way, or about its file, leave open what becomes of
// it? 408, 409, 425, 429 and all from 500 on: it may pass, or came from something in between, and
// to ask another would be to pay twice.
bool leaves_job_open(int status);

// Turns bytes into audio of the type they show to be. `expected` is what was asked for and the only
// way to be headerless PCM (mono at `rate` Hz, unless the content type says otherwise:
// "audio/pcm;rate=44100;channels=2"). Refuses (kTryNext): a content type that is not audio, a rate
// or channels that nothing has, nothing at all, text, a WAV or MP3 shorter than its own header
// says, an Ogg that ends within a page.
Result<Audio, ProviderFault> audio_of(std::string bytes,
                                      std::string_view content_type,
                                      AudioType expected,
                                      int rate);

// With what the provider says it bills, whether the audio is any good or not.
Result<Audio, ProviderFault> billed(Result<Audio, ProviderFault> audio,
                                    std::optional<Thousandths> told);

// The bytes that the member `name` of a JSON object holds as base64, the answer to `response`.
// Takes its body. Refuses (kTryNext) what is no object or no such base64.
Result<std::string, ProviderFault> base64_member(http::ClientResponse& response,
                                                 const char* name,
                                                 const char* id_header);

// Pairs of hexadecimal digits, of either case, and nothing else; nullopt for everything else.
std::optional<std::string> decode_hex(std::string_view text);

// A number as formats write it: at most three decimals, no zeroes at the end, no exponent.
std::string number(double value);

// The file as a data: address (RFC 2397), for models that take no other kind of upload.
std::string data_uri(const AudioReference& sound);
std::string data_uri(const ImageReference& image);

// JSON text parsed in place; `body` holds the strings and must outlive the document. False: not an
// object.
bool parse_object(std::string& body, rapidjson::Document& document);

// The member of that name if it is of that type, or "" / nullptr.
std::string_view text_of(const rapidjson::Value& object, const char* name);
const rapidjson::Value* member(const rapidjson::Value& object, const char* name);

// Of a list of what is wrong with a request (FastAPI's "detail"), the member of the body that the
// first is about, as a path: the texts of its "loc", "voice_settings.speed"; or "".
std::string bad_member(const rapidjson::Value& detail);

// 16 bytes made from `request_key`, written as a UUID: the same key is the same id.
std::string request_uuid(std::string_view request_key);

// For a path segment or a query value (RFC 3986: unreserved characters stay).
std::string percent_encode(std::string_view text);

// True when both have the same scheme, host and port: our key may be sent there.
bool same_origin(const std::string& a, const std::string& b);

// Tells of the call's span (W3C Trace Context), where there is one and an operator has named the
// address: one that an answer has named may be anybody's.
void add_trace(http::ClientRequest& request, const std::optional<TraceSpan>& span);

// True for localhost and literal loopback hosts.
bool is_loopback(const std::string& url);

}  // namespace audiogen::wire
