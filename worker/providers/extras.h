// What an entry adds to each of its requests, beyond what its kind says: members of the JSON body,
// header lines, parameters of the query.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <rapidjson/document.h>

#include "worker/providers/kind.h"

namespace audiogen::extras {

inline constexpr ProviderOption kMembers = {
    .name = "members", .about = "further members of the request's JSON", .object = true};
inline constexpr ProviderOption kHeaders = {
    .name = "headers",
    .about =
        "further header lines, by name: a text, or `{\"env\": \"NAME\"}` for one that must not "
        "stand in a file",
    .object = true};
inline constexpr ProviderOption kQuery = {
    .name = "query",
    .about = "further parameters of the query, by name; nothing secret: proxies log addresses",
    .object = true};

// What a kind sends itself, so that no entry may say it otherwise.
struct Ours {
  std::vector<std::string_view> members{};
  std::vector<std::string_view> query{};
  std::vector<std::string_view> headers{};  // in lower case, beside those that every request has
};

// For a kind's check(): those three options, where the kind has them. Complains of what is no
// header and of what is `ours`. Reads the variables that headers name: call before threads start.
// Values are never shown.
void check(ProviderEntry& entry, const Ours& ours, const Complain& complain);

// What a flat body with a short text needs lies beside it: a Document by itself takes 64 KB from
// the heap and gives them back, for each call.
struct BodyMemory {
  static constexpr std::size_t kFurther = 8 * 1024;  // Bytes from the heap, each time it is full.
  alignas(std::max_align_t) std::array<std::byte, 2048> bytes;
  rapidjson::MemoryPoolAllocator<> pool{bytes.data(), bytes.size(), kFurther};
};

// A body to begin with: the entry's members. It ends where it was made: not to be moved from, for
// its values are in its own memory.
class Body : BodyMemory, public rapidjson::Document {
 public:
  explicit Body(const ProviderEntry& entry);
};

// Sets a member; `path` is a JSON Pointer (RFC 6901), "/voice/id".
void set(rapidjson::Document& body, const char* path, std::string_view text);
void set(rapidjson::Document& body, const char* path, rapidjson::Value value);
// Sets what `json` is the text of.
void set_json(rapidjson::Document& body, const char* path, const std::string& json);
// Sets a voice: a text at `name_path`; an object, of kinds whose voices may be one, at `path`.
void set_voice(rapidjson::Document& body,
               const char* path,
               const char* name_path,
               const std::string& voice);
std::string text_of(const rapidjson::Document& body);

// "?a=b&c=d"; begins with `first`; "" without parameters.
std::string query(const ProviderEntry& entry, char first);

void add_headers(const ProviderEntry& entry, http::ClientRequest& request);

}  // namespace audiogen::extras
