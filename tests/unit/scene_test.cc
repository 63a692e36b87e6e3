// Which prompts mark themselves as scenes, and what only looks like it.
#include "common/domain/scene.h"

#include <string>

#include <gtest/gtest.h>

namespace audiogen {
namespace {

TEST(Scene, CuesMarkIt) {
  for (const char* prompt : {"[rain]",
                             "[rain on a tin roof] Who is there?",
                             "She opens the door. [It creaks.]",
                             "Who is there? [thunder]\nNobody.",
                             "[1] one, [x] two",
                             "(rain)",
                             "Who is there?\n  (a door creaks)  \nNobody.",
                             "(thunder)\r\nWho is there?",
                             "\"[laughs]\"",
                             "[дождь]",
                             "[雨の音]",
                             "［雨］",
                             "（雨声）",
                             "[a [b]",
                             "Somebody came. (Door)",
                             "It was late. (door) Who is there?"}) {
    EXPECT_TRUE(is_scene(prompt)) << prompt;
  }
}

// What would be taken from a narrator for nothing.
TEST(Scene, ProseIsNarration) {
  for (const char* prompt : {"",
                             "\n\n",
                             "It rains, and thunder rolls in the distance.",
                             "Sound of rain, then a door.",
                             "As was shown [1], and again [12, 13].",
                             "\"He came […] and went.\"",
                             "[...]",
                             "[]",
                             "[ ]",
                             "See [here](https://a.example/b).",
                             "Take a[i] and f()[x] and m[0][k].",
                             "The firm (founded in 1990) grew.",
                             "(one) and (two)",
                             "(a) first\n(b) second",
                             "(1)",
                             "()",
                             "(",
                             "[",
                             "]rain[",
                             "a [b",
                             "[two\nlines]",
                             "(two\nlines)",
                             "The (front door) fell shut.",
                             "「雨」と書いた。"}) {
    EXPECT_FALSE(is_scene(prompt)) << prompt;
  }
}

// Whoever knows sixteen sounds by name makes no other.
TEST(Scene, OfNamesAlone) {
  const auto of_names = [](const char* prompt, std::optional<std::string> voice = std::nullopt) {
    return is_scene_of_names(prompt, voice);
  };
  for (const char* prompt : {"[rain]",
                             "[rain] Who is there?",
                             "Who is there?\n(door)\nNobody. [ Thunder ]",
                             "[rain] (he said) and went, see [1].",
                             "[rain] (hello)"}) {
    EXPECT_TRUE(of_names(prompt)) << prompt;
  }
  for (const char* prompt : {"",
                             "Who is there?",
                             "[laughs]",
                             "[rain] Who is there? [laughs]",
                             "[rain on a tin roof]",
                             "[rain]\n(a door creaks)",
                             "[a [rain]]"}) {
    EXPECT_FALSE(of_names(prompt)) << prompt;
  }
  EXPECT_TRUE(of_names("[rain] [thunder].", "aria"));
  EXPECT_TRUE(of_names("[rain] [thunder].", "scene"));
  EXPECT_FALSE(of_names("[rain] on a tin roof", "scene")) << "that is to be made, too";
}

// It is asked of every task that could have both.
TEST(Scene, LongPromptsCostLittle) {
  EXPECT_FALSE(is_scene(std::string(8192, '[')));
  EXPECT_FALSE(is_scene(std::string(8192, '[') + "1]"));
  EXPECT_FALSE(is_scene(std::string(8192, '(')));
  EXPECT_FALSE(is_scene(std::string(8192, '\n')));
  std::string brackets;
  for (int i = 0; i < 2048; ++i) {
    brackets += "[1]";
  }
  EXPECT_FALSE(is_scene(brackets));
  EXPECT_TRUE(is_scene(brackets + " [x]"));
}

}  // namespace
}  // namespace audiogen
