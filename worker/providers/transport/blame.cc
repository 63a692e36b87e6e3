#include "worker/providers/transport/blame.h"

#include <algorithm>
#include <array>
#include <string>

#include "common/base/ascii.h"

namespace audiogen::blame {
namespace {

constexpr std::array<std::string_view, 12> kWordsOfOperator = {"voice",
                                                               "voices",
                                                               "voiceid",
                                                               "speaker",
                                                               "model",
                                                               "models",
                                                               "version",
                                                               "encoding",
                                                               "container",
                                                               "subscription",
                                                               "tier",
                                                               "language"};
// The language is in both: an operator may have named it, but a text is in one, too.
constexpr std::array<std::string_view, 12> kWordsOfClient = {"text",
                                                             "transcript",
                                                             "prompt",
                                                             "character",
                                                             "characters",
                                                             "speed",
                                                             "pitch",
                                                             "prosody",
                                                             "reference",
                                                             "references",
                                                             "image",
                                                             "language"};

bool is_joint(char c) {
  return c == '_' || c == '-';
}

// The first stretch of letters, digits and of what `joins` them, which is taken away; "" at the
// end.
template <class Joins>
std::string_view next_word(std::string_view& text, Joins joins) {
  const auto is_part = [joins](char c) { return ascii::is_alnum(c) || joins(c); };
  const auto* const begin = std::find_if(text.begin(), text.end(), is_part);
  const auto* const end = std::find_if_not(begin, text.end(), is_part);
  const std::string_view word(begin, static_cast<std::size_t>(end - begin));
  text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
  return word;
}

// Its letters and digits alone, in lower case: however a provider shortens or cleans what it
// quotes, its words are somewhere in this.
std::string reduced(std::string_view text) {
  std::string out = ascii::lower(text);
  std::erase_if(out, [](char c) { return !ascii::is_alnum(c); });
  return out;
}

bool has_word(std::string_view text, std::string_view lower_case_word) {
  const auto none = [](char) { return false; };
  for (auto word = next_word(text, none); !word.empty(); word = next_word(text, none)) {
    if (ascii::equals_ignoring_case(word, lower_case_word)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_refusal(int status) {
  return status == 400 || status == 422;
}

bool is_page(std::string_view body) {
  const auto begin = body.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && body[begin] == '<';
}

Fault by_name(std::string_view name, std::initializer_list<std::string_view> of_client) {
  bool named = false;
  for (auto part = next_word(name, is_joint); !part.empty(); part = next_word(name, is_joint)) {
    if (std::find(of_client.begin(), of_client.end(), part) != of_client.end()) {
      return Fault::kUnsupportedInput;
    }
    named = true;
  }
  return named ? Fault::kMisconfigured : Fault::kBrokenByInput;
}

Fault by_words(std::string_view words, std::string_view text_of_client) {
  if (is_page(words)) {
    return Fault::kBrokenByInput;  // Its words are those of its markup.
  }
  const std::string of_client = reduced(text_of_client);
  const auto is_there = [&](std::string_view word) { return has_word(words, word); };
  // What may be quoted blames nobody; but it does not leave the others alone either.
  const auto blames = [&](std::string_view word) {
    return is_there(word) && of_client.find(word) == std::string::npos;
  };
  const auto names_any = [](const auto& list, const auto& test) {
    return std::any_of(list.begin(), list.end(), test);
  };
  if (names_any(kWordsOfOperator, is_there)) {
    return names_any(kWordsOfOperator, blames) && !names_any(kWordsOfClient, is_there)
               ? Fault::kMisconfigured
               : Fault::kBrokenByInput;
  }
  return names_any(kWordsOfClient, blames) ? Fault::kUnsupportedInput : Fault::kBrokenByInput;
}

}  // namespace audiogen::blame
