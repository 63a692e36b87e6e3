// Kanji to kana: what kakasi reads, and what it loses unless it is asked for it apart.
#include "worker/speech/kana.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

extern "C" const char* __lsan_default_suppressions() {  // The sanitizer's name.
  return "leak:libkakasi";                              // It forgets a buffer of each text.
}

namespace audiogen::speech {
namespace {

std::string read(const std::string& text) {
  static const bool there = KanaReader::open_dictionaries();
  EXPECT_TRUE(there);
  return KanaReader().read(text);
}

TEST(Kana, StemsBeforeASmallTsuAreRead) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"行った", "いった"},
      {"言って", "いって"},
      {"買っちゃう", "かっちゃう"},
      {"引っ張って", "ひっぱって"},
      {"酔っ払い", "よっはらい"},
      {"取っ手", "とって"},
      {"昨日買った本を読んで、家に帰って寝た",
       "きのう かった ほん を よんで 、 いえ に かえって ねた"},
      {"終わった", "おわった"},
      {"行った学校", "いった がっこう"},
      {"買った切符", "かった きっぷ"},
      {"思った結果", "おもった けっか"},
      {"彼が撮った雑誌", "かれ が とった ざっし"},
      {"結局買った", "けっきょく かった"},
      {"学校行った", "がっこう いった"},
      {"絶対言った", "ぜったい いった"},
      {"行っ", "いっ"},
      {"待っ、待って", "まっ、 まって"},
      {"「待っ」", "「 まっ」"},
      {"突っコミ", "つっコミ"},
      {"𠮟った", "しかった"},
      {"買った髙島屋", "かった たかしまや"},
  };
  for (const auto& [in, out] : table) {
    EXPECT_EQ(read(in), out) << in;
  }
}

TEST(Kana, ParticlesAndHoursAreSaidAsTheyAreSpoken) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"今日は天気がいい", "きょう わ てんき がいい"},
      {"今日はいい天気です", "きょう わ いい てんき です"},
      {"私は", "わたし わ"},
      {"アメリカへは、これは", "アメリカ えわ 、 これわ"},
      {"こんにちは", "こんにちわ"},
      {"実は知っています", "じつわ しって います"},
      {"お母さんは元気ですか", "お かあさん わ げんき ですか"},
      {"会社ではたらいている", "かいしゃ ではたらいている"},
      {"去年はじめて日本に来た", "きょねん はじめて にっぽん に きた"},
      {"今日はじめて日本に来た", "きょう はじめて にっぽん に きた"},
      {"今日はやく起きた", "きょう はやく おき た"},
      {"昨日へんな夢を見た", "きのう へんな ゆめ を みた"},
      // Kanji that are read like particles, and what only contains them.
      {"私の歯は白い", "わたし の ハ わ しろい"},
      {"葉が緑", "ハ が みどり"},
      {"おはよう", "おはよう"},
      {"10時に、3時間", "10 じ に 、 3 じかん"},
      {"10時は", "10 じ わ"},
      {"母", "はは"},
  };
  for (const auto& [in, out] : table) {
    EXPECT_EQ(read(in), out) << in;
  }
  // iconv made ASCII of them, whose names were said.
  EXPECT_EQ(read("¥500").find('\\'), std::string::npos);
  EXPECT_EQ(read("\u203E").find('~'), std::string::npos);
}

TEST(Kana, WordsThatItKnowsStayWhole) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"空っぽ", "からっぽ"},
      {"下っぱ", "したっぱ"},
      {"葉っぱ", "はっぱ"},
      {"根っこ", "ねっこ"},
      {"真っ赤", "まっか"},
      {"東京へ行きます", "とうきょう え いき ます"},
      {"abc 😀 日本", "abc 😀 にっぽん"},
      {"", ""},
      {"っ", "っ"},
  };
  for (const auto& [in, out] : table) {
    EXPECT_EQ(read(in), out) << in;
  }
}

// Three bytes in EUC-JP, of which kakasi reads two.
TEST(Kana, WhatItsCharacterSetLacksHidesNothingElse) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"任天堂®の", "にんてんどう®の"},
      {"©任天堂", "©にんてんどう"},
      {"¿日本?", "¿にっぽん ?"},
      {"拉麵を食べた", "らーめん を たべた"},
      {"頰", "ほお"},
      {"仚", "仚"},
  };
  for (const auto& [in, out] : table) {
    EXPECT_EQ(read(in), out) << in;
  }
}

TEST(Kana, AWholePromptOfThemIsRead) {
  std::string text, kana;
  for (int i = 0; i < 1024; ++i) {
    text += "行った";
    kana += "いった";
  }
  std::string out = read(text);
  std::erase(out, ' ');
  EXPECT_EQ(out, kana);
}

}  // namespace
}  // namespace audiogen::speech
