// Cues in a prompt: what is one, and that all else stays words, to the byte.
#include "common/domain/cues.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

std::string repeat(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

// The parts as one reads them: words in quotes, cues by their names.
std::string shown(std::string_view prompt) {
  std::string out;
  for (const ScriptPart& part : split_cues(prompt)) {
    if (!out.empty()) {
      out += ' ';
    }
    if (!part.cue) {
      out += '\'' + std::string(part.words) + '\'';
      continue;
    }
    EXPECT_TRUE(part.words.empty());
    for (const CueName& known : cue_names()) {
      out += known.cue == *part.cue ? known.name : "";
    }
  }
  return out;
}

TEST(Cues, Table) {
  struct Row {
    const char* name;
    std::string_view prompt, parts;
  };
  for (const Row& row : std::vector<Row>{
           {"nothing", "", ""},
           {"prose", "The rain fell, and a door shut.", "'The rain fell, and a door shut.'"},
           {"alone", "[rain]", "rain"},
           {"round", "(door)", "door"},
           {"case", "[RaIn](DOOR)", "rain door"},
           {"a link", "See [Door](https://example.com)", "'See [Door](https://example.com)'"},
           {"words behind it", "[Door](He came in.)", "door '(He came in.)'"},
           {"never closed", "[rain](softly. And", "rain '(softly. And'"},
           {"a link to a file", "[Rain](rain.html) [Rain]", "'[Rain](rain.html) ' rain"},
           {"trimmed", "[ rain\t]( door )", "rain door"},
           {"between words",
            "He left. (door) Then rain: [rain]",
            "'He left. ' door ' Then rain: ' rain"},
           {"no space around it", "a[bell]b", "'a' bell 'b'"},
           {"spaces stay words", "[bell] [bell]", "bell ' ' bell"},
           {"not exactly a name",
            "[heavy rain] (rains) [rain.] [ra in]",
            "'[heavy rain] (rains) [rain.] [ra in]'"},
           {"part of a name", "[bel] [bells] []", "'[bel] [bells] []'"},
           {"line break is no space", "[\nrain]", "'[\nrain]'"},
           {"other brackets", "{rain} <rain> *rain* \"rain\"", "'{rain} <rain> *rain* \"rain\"'"},
           {"unclosed", "[rain", "'[rain'"},
           {"unopened", "rain]", "'rain]'"},
           {"mixed", "[rain) (rain]", "'[rain) (rain]'"},
           {"crossed", "([rain)]", "'([rain)]'"},
           {"nested", "[[rain]]", "'[[rain]]'"},
           {"nested in the other kind", "([rain])", "'([rain])'"},
           {"in an aside", "(and then [bell] it rang) [bell]", "'(and then [bell] it rang) ' bell"},
           {"beside one that encloses nothing", "[a] [bell] (b)", "'[a] ' bell ' (b)'"},
           {"after one never closed", "a :( [bell] b", "'a :( ' bell ' b'"},
           {"after one never opened", "1) [bell] 2) b", "'1) ' bell ' 2) b'"},
           {"unclosed of its own kind before it", "[ [bell]", "'[ ' bell"},
           {"unicode around", "Привет[rain]世界", "'Привет' rain '世界'"},
           {"fullwidth", "［rain］ [ｒａｉｎ]", "'［rain］ [ｒａｉｎ]'"},
           {"no-break space", "[\u00A0rain]", "'[\u00A0rain]'"},
           {"zero width", "[ra\u200Bin]", "'[ra\u200Bin]'"},
           {"lower case by other rules",
            "[bır\u0131ds] [\u212Bpplause]",
            "'[bır\u0131ds] [\u212Bpplause]'"},
       }) {
    EXPECT_EQ(shown(row.prompt), row.parts) << row.name;
    const bool only_words = row.parts.empty() || row.parts == '\'' + std::string(row.prompt) + '\'';
    EXPECT_EQ(has_cues(row.prompt), !only_words) << row.name;
  }
}

TEST(Cues, EveryNameIsOne) {
  EXPECT_TRUE(std::is_sorted(cue_names().begin(),
                             cue_names().end(),
                             [](const CueName& a, const CueName& b) { return a.name < b.name; }));
  for (const CueName& known : cue_names()) {
    for (const std::string& prompt :
         {'[' + std::string(known.name) + ']', '(' + std::string(known.name) + ')'}) {
      const std::vector<ScriptPart> parts = split_cues(prompt);
      ASSERT_EQ(parts.size(), 1U) << prompt;
      EXPECT_EQ(parts.front().cue, known.cue) << prompt;
    }
    EXPECT_EQ(is_ambience(known.cue), known.ambience) << known.name;
    EXPECT_FALSE(has_cues(known.name));
  }
}

// What is not a cue comes back as it stood.
TEST(Cues, NothingIsLost) {
  for (const std::string& prompt : {repeat("[rain]", 341),
                                    repeat("a[bell]", 292),
                                    repeat("[", 2048),
                                    repeat("(", 1024) + repeat("]", 1024),
                                    repeat("[", 1000) + "rain" + repeat("]", 1000),
                                    repeat("([)]", 512),
                                    repeat("[bell](", 292),
                                    repeat("\xF0\x9F\x98\x80", 2048)}) {
    std::size_t cues = 0;
    std::string words;
    for (const ScriptPart& part : split_cues(prompt)) {
      cues += part.cue ? 1U : 0U;
      words += part.words;
    }
    std::string rest = prompt;
    for (const std::string_view cue : {"[rain]", "[bell]"}) {
      for (std::size_t at = 0; cues > 0 && (at = rest.find(cue)) != std::string::npos; --cues) {
        rest.erase(at, cue.size());
      }
    }
    EXPECT_EQ(cues, 0U);
    EXPECT_EQ(words, rest);
  }
  EXPECT_EQ(split_cues(repeat("[rain]", 341)).size(), 341U);
}

}  // namespace
}  // namespace audiogen
