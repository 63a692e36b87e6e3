#include "common/domain/scene.h"

#include <array>
#include <string>

#include "common/base/ascii.h"
#include "common/base/utf8.h"
#include "common/domain/cues.h"
#include "common/domain/voices.h"

namespace audiogen {
namespace {

struct Pair {
  std::string_view open, close;
};
// The full-width forms of texts in Chinese and Japanese: U+FF3B, U+FF3D; U+FF08, U+FF09.
constexpr std::array<Pair, 2> kBrackets = {{{"[", "]"}, {"\xEF\xBC\xBB", "\xEF\xBC\xBD"}}};
constexpr std::array<Pair, 2> kParentheses = {{{"(", ")"}, {"\xEF\xBC\x88", "\xEF\xBC\x89"}}};

// Letters are what a cue is made of. Beyond ASCII everything counts as one but the blocks of
// punctuation and symbols that texts use: Latin-1's, General Punctuation, CJK's.
bool is_letter(std::string_view sequence) {
  if (sequence.size() == 1) {
    return ascii::is_lower(ascii::lower(sequence.front()));
  }
  const char32_t c = utf8_code_point(sequence);
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  return !within(0x80, 0xBF) && !within(0x2000, 0x206F) && !within(0x3000, 0x3004) &&
         !within(0x3008, 0x3020);
}

bool has_letter(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) {
      return false;  // Not UTF-8: nothing is known of it.
    }
    if (is_letter(text.substr(0, length))) {
      return true;
    }
    text.remove_prefix(length);
  }
  return false;
}

// "a[i]", "f()[x]": what belongs to the character before it is no cue.
bool is_index(std::string_view before) {
  return !before.empty() && (ascii::is_alnum(before.back()) || before.back() == '_' ||
                             before.back() == ')' || before.back() == ']');
}

// Words between the brackets, nothing else. Of nested ones the innermost counts, so that each
// character is looked at twice at most.
bool has_cue(std::string_view line, const Pair& brackets) {
  std::size_t from = 0;
  for (auto close = line.find(brackets.close); close != std::string_view::npos;
       close = line.find(brackets.close, from)) {
    const auto open = line.substr(from, close - from).rfind(brackets.open);
    const std::size_t end = close + brackets.close.size();
    if (open != std::string_view::npos) {
      const std::size_t inside = from + open + brackets.open.size();
      if (!is_index(line.substr(0, from + open)) && !line.substr(end).starts_with('(') &&
          has_letter(line.substr(inside, close - inside))) {
        return true;
      }
    }
    from = end;
  }
  return false;
}

bool is_cue(std::string_view line, const Pair& parentheses) {
  if (!line.starts_with(parentheses.open) || !line.ends_with(parentheses.close) ||
      line.size() < parentheses.open.size() + parentheses.close.size()) {
    return false;
  }
  const std::string_view inside = line.substr(
      parentheses.open.size(), line.size() - parentheses.open.size() - parentheses.close.size());
  // "(one) and (two)" begins and ends so, too.
  return inside.find(parentheses.open) == std::string_view::npos &&
         inside.find(parentheses.close) == std::string_view::npos && has_letter(inside);
}

}  // namespace

bool is_scene(std::string_view prompt) {
  const std::string_view all = prompt;
  while (!prompt.empty()) {
    const auto end = prompt.find('\n');
    std::string_view line = prompt.substr(0, end);
    line = ascii::trim(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
    for (const Pair& brackets : kBrackets) {
      if (has_cue(line, brackets)) {
        return true;
      }
    }
    for (const Pair& parentheses : kParentheses) {
      if (is_cue(line, parentheses)) {
        return true;
      }
    }
    prompt.remove_prefix(end == std::string_view::npos ? prompt.size() : end + 1);
  }
  return has_cues(all);  // "Somebody came. (Door)"
}

bool is_scene(std::string_view prompt, const std::optional<std::string>& voice) {
  return voice == kSceneVoice || is_scene(prompt);
}

bool is_scene_of_names(std::string_view prompt, const std::optional<std::string>& voice) {
  std::string rest;  // With a mark where a cue was, so that it does not join what stood around it.
  bool any = false;
  for (const ScriptPart& part : split_cues(prompt)) {
    any = any || part.cue;
    rest += part.cue ? "-" : part.words;
  }
  return any && !is_scene(rest) && (voice != kSceneVoice || !has_letter(rest));
}

}  // namespace audiogen
