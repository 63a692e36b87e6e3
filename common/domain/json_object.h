// Reading a small JSON object that a client sends: the part that all bodies but a generation's
// request, which has a reader of its own, have in common. For the sources of this folder only:
// nobody else needs to know the parser.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <rapidjson/document.h>

#include "common/base/result.h"
#include "common/domain/api_error.h"

namespace audiogen {

// The JSON object that `body` is; else 400 that says what it is not. Never quotes it. Pure.
Result<rapidjson::Document, ApiError> read_json_object(std::string_view body);

// Of a string; valid as long as the document.
std::string_view text_of(const rapidjson::Value& value);

// 400 naming `member`, in a sentence that begins with it: `rule` is "must be …".
ApiError wrong_member(std::string_view member, std::string_view rule);

// A member that a body may have, a string, and how long it may be.
struct Member {
  std::string_view name;
  std::size_t bytes_max;
};

// Reads a JSON object of strings, each of `known`, at most once, into `out`, in the order of
// `known`. What is wrong with it otherwise; never repeats a value.
std::optional<ApiError> read_strings(std::string_view body,
                                     std::span<const Member> known,
                                     std::span<std::optional<std::string>> out);

template <std::size_t N>
Result<std::array<std::optional<std::string>, N>, ApiError> read_strings(
    std::string_view body, const std::array<Member, N>& known) {
  std::array<std::optional<std::string>, N> out;
  if (auto wrong = read_strings(body, known, out)) {
    return *std::move(wrong);
  }
  return out;
}

}  // namespace audiogen
