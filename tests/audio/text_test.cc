// Text preparation: what is cleaned away, and which voice reads which run.
#include "worker/local/text.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "worker/local/numbers.h"

namespace audiogen {
namespace {

std::string repeat(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

struct Clean {
  const char* name;
  std::string in, out;
};

TEST(CleanText, Table) {
  const std::vector<Clean> table = {
      {"plain", "Hello, world.", "Hello, world."},
      {"fullwidth", "ＡＢ１", "AB1"},
      {"mathematical", "𝓗𝓮𝓵𝓵𝓸", "Hello"},
      {"ellipsis", "so…", "so..."},
      {"espeak command bytes",
       "a\x01"
       "0Ab",
       "a 0Ab"},
      {"delete and C1",
       "a\x7F"
       "b\xC2\x85"
       "c",
       "a b c"},
      {"line ends", "a\r\nb", "a\n\nb"},
      {"tab", "a\tb", "a b"},
      {"right-to-left override",
       "a\u202E"
       "b",
       "a b"},
      {"byte order mark, zero-width space",
       "\uFEFFa\u200B"
       "b",
       " a b"},
      {"private use, noncharacter",
       "a\uE000"
       "b\uFFFE"
       "c",
       "a b c"},
      {"soft hyphen", "hy\u00ADphen", "hyphen"},
      {"joiner between letters",
       "a\u200D"
       "b",
       "ab"},
      {"joiner inside emoji", "👩\u200D👧", "👩\u200D👧"},
      {"joiner after emoji",
       "👩\u200D"
       "b",
       "👩b"},
      {"selectors: one after an emoji, none after a letter", "❤\uFE0F\uFE0F a\uFE0F", "❤\uFE0F a"},
      {"keycap", "1\uFE0F\u20E3", "1"},
      {"tag characters", "x\U000E0067\U000E007Fy", "xy"},
      {"marks", "q" + repeat("\u0335", 30), "q" + repeat("\u0335", 4)},
      {"reference token", "like @Audio1", "like @Audio1"},
      {"fraction", "½, 1½, ١¾ and ⅓", "½, 1 ½, ١ ¾ and 1\u20443"},
      {"marks that engines would name",
       "你好～ え〜と ジョン・スミス 10~20",
       "你好  え と ジョン スミス 10 20"},
      {"signs that are read as what they are", "Windows™ № 5", "Windows™ № 5"},
      {"vowels that are one character", "น้ำ ทำ", "น้ำ ทำ"},
      {"an apostrophe that is a letter", "п\u02BCять", "п'ять"},
      {"numbered items", "①3年 ①② 5.2① ⒈3 a①b", "1 3年 1 2 5.2 1 1. 3 a1b"},
      {"wide marks between numbers",
       "100，200；3！4？5 １，２００ 10：30 1，000円 12，050，500 2，500，000 5，100，200，000 "
       "1，234 001，002，003 2024，050",
       "100, 200; 3! 4? 5 1,200 10:30 1,000円 12,050,500 2,500,000 5,100,200,000 1, 234 001, 002, "
       "003 2024, 050"},
      {"exponent", "10⁶ m², 10²³", "10 6 m2, 10 23"},
      {"ordinals and a micrometre", "1º 3ª 5 µm Ａ", "1º 3ª 5 µm A"},
      {"invalid", "a\xC3(", ""},
      {"lone surrogate", "\xED\xA0\x80", ""},
      {"empty", "", ""},
  };
  for (const Clean& row : table) {
    EXPECT_EQ(clean_text(row.in), row.out) << row.name;
  }
}

TEST(CleanText, BreaksLongRunsWithoutBreakingGraphemes) {
  EXPECT_EQ(clean_text(std::string(100, 'x')),
            std::string(40, 'x') + " " + std::string(40, 'x') + " " + std::string(20, 'x'));
  EXPECT_EQ(clean_text(repeat("s'", 30)), repeat("s'", 20) + " " + repeat("s'", 10));
  const std::string spaced = repeat(std::string(40, 'x') + " ", 3);
  EXPECT_EQ(clean_text(spaced), spaced);
  // The mark belongs to the fortieth letter.
  EXPECT_EQ(clean_text(std::string(39, 'x') + "q\u0335" + "yz"),
            std::string(39, 'x') + "q\u0335 yz");
  // A chain of joined emoji never ends: cut at 80.
  const std::string chain = clean_text(repeat("👩\u200D", 200) + "👩");
  EXPECT_NE(chain.find(' '), std::string::npos);
}

// Their words have no spaces between them.
TEST(CleanText, BreaksNoRunsOfHan) {
  const std::string sentence =
      "先週の土曜日に友達と一緒に見に行った新しい映画は、思っていたよりもずっと大人向けの映画でした"
      "。";
  EXPECT_EQ(clean_text(sentence + sentence), sentence + sentence);
  EXPECT_EQ(clean_text(repeat("ね", 41)), repeat("ね", 40) + " ね");
  // Else espeak-ng leaves out what is beyond some 200 of a clause.
  EXPECT_EQ(clean_text("好，好！好 a,b"), "好, 好! 好 a,b");
  EXPECT_EQ(clean_text(repeat("好", 201)), repeat("好", 100) + "、" + repeat("好", 100) + "、好");
  EXPECT_EQ(clean_text(repeat("好", 60) + "\n" + repeat("好", 60)),
            repeat("好", 60) + "\n" + repeat("好", 40) + "、" + repeat("好", 20));
  const std::string title = repeat("好", 45) + "《";
  EXPECT_EQ(clean_text(repeat(title, 3)),
            repeat(title, 2) + repeat("好", 10) + "、" + repeat("好", 35) + "《")
      << "no clause ends there";
  EXPECT_EQ(clean_text("好，「好！」好。好"), "好, 「好! 」好。好");
  EXPECT_EQ(clean_text("3,4.5 is a.b:c"), "3,4.5 is a.b:c");
  EXPECT_EQ(clean_text(repeat("好12", 25)), repeat("好12", 20) + "好、12" + repeat("好12", 4))
      << "digits are said, too";
  EXPECT_EQ(clean_text(repeat("好", 99) + "12年" + repeat("好", 9)),
            repeat("好", 99) + "、12年" + repeat("好", 9));
  EXPECT_EQ(clean_text(repeat("1 ", 200)), repeat("1 ", 200)) << "of other languages nothing";
  EXPECT_EQ(clean_text(repeat("好", 60) + "。" + repeat("好", 60)),
            repeat("好", 60) + "。" + repeat("好", 60));
}

TEST(CleanText, IsBounded) {
  // Every ligature becomes eighteen letters.
  const std::string cleaned = clean_text(repeat("\uFDFA", 2048));
  EXPECT_LE(cleaned.size(), kCleanMax * 4);
  EXPECT_GT(cleaned.size(), kCleanMax);
}

TEST(StripReferenceMarks, TakesOutWhatIsAMarkAndNothingElse) {
  EXPECT_EQ(strip_reference_marks("Like @Audio1, not @Audio2."), "Like  , not  .");
  EXPECT_EQ(strip_reference_marks("@Audio3"), " ");
  for (const char* const text :
       {"@Audio", "@Audio0", "@Audio4", "@Audio1x", "@Audio12", "Audio1"}) {
    EXPECT_EQ(strip_reference_marks(text), text);
  }
  // What is no letter of ASCII ends a mark, in every locale.
  EXPECT_EQ(strip_reference_marks("@Audio1\xC3\xA9"), " \xC3\xA9");
}

TEST(IsSpeakable, Table) {
  for (const char* text : {"a", "7", "你", "😀", ".", "€", "🇪🇺"}) {
    EXPECT_TRUE(is_speakable(clean_text(text))) << text;
  }
  for (const char* text : {"", " ", "\n\n", "\u200B", "。", "\u3000", "\x01"}) {
    EXPECT_FALSE(is_speakable(clean_text(text))) << text;
  }
}

TEST(HasWords, LettersAndDigitsAre) {
  for (const char* text : {"a", "7", "...b", "你"}) {
    EXPECT_TRUE(has_words(text)) << text;
  }
  for (const char* text : {"", " ", "...", "?!", "€", "😀"}) {
    EXPECT_FALSE(has_words(text)) << text;
  }
}

TEST(HasMoreThanMarks, LettersDigitsSymbolsAndPicturesAre) {
  for (const char* text : {"a", "7", "é", "世", "$", "+", "😀", ". b", "[x]"}) {
    EXPECT_TRUE(has_more_than_marks(text)) << text;
  }
  for (const char* text : {"", " ", ".", "?!", "…", "。", "(...)", " - ", "\n", "\u0301"}) {
    EXPECT_FALSE(has_more_than_marks(text)) << text;
  }
}

TEST(ToAscii, Table) {
  for (const auto& [in, out] : std::vector<std::pair<std::string, std::string>>{
           {"Plain text, as it is: 42!", "Plain text, as it is: 42!"},
           {"naïve café déjà vu", "naive cafe deja vu"},
           {"Łódź, Ærø, Straße, Nguyễn", "Lodz, Aero, Strasse, Nguyen"},
           {"It’s “so” – well", "It's \"so\" ,  well"},
           {"salt & pepper", "salt  and  pepper"},
           {"5 €", "5  euros "},
           {"20 °C", "20  degrees C"},
           {"<b>_x_</b>", " b  x  /b "},
           {"₹500, 5¢", "500 rupees, 5 cents "},
           {"Windows™ on № 5", "Windows  on  number  5"},
           {"x ≠ y ≤ z", "x  not equal to  y  less than or equal to  z"},
           {"Ŋŋ ƏəƐɛƆɔ Ħħ ƁɓƊɗƘƙ ẞ", "Ngng EeEeOo Hh BbDdKk SS"},
           {"Hawaiʻi, ma\u02BCluf", "Hawai'i, ma'luf"},
           {"up → down ★", "up   down  "},
           {"gate \u096B, row \u0660\u0669", "gate 5, row 09"},
           {"\U0001D7CE\U0001D7D8\U0001D7FF \u0E57 \U0001E959", "009 7 9"}}) {
    EXPECT_EQ(to_ascii(in), out) << in;
  }
  // A letter or a number would be lost, or no word is left.
  for (const char* text : {"中", "a ʃ", "a ↀ", "ʼ", "...", "→", "", "\xFF"}) {
    EXPECT_EQ(to_ascii(text), std::nullopt) << text;
  }
}

struct Split {
  const char* name;
  std::string language, in;
  std::vector<TextRun> out;
};

TEST(ToAscii, FractionsAreSaid) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"½ cup", "1 half cup"},
      {"1½ cups", "1 and 1 half cups"},
      {"3¾ hours", "3 and 3 quarters hours"},
      {"⅔, ⅛ and ⅚.", "2 thirds, 1 eighth and 5 sixths."},
      {"7⅒", "7 and 1 tenth"},
      {"5\u2044"
       "16",
       "5 over 16"},
      {"5\u2044x", "5 over x"},
      {"1/2 and 2024", "1/2 and 2024"},
  };
  for (const auto& [in, out] : table) {
    EXPECT_EQ(to_ascii(clean_text(in)).value_or(""), out) << in;
  }
}

// espeak-ng has no Hebrew numbers: they were left out without a word.
TEST(SplitLanguages, NumbersAreSaidByAVoiceThatHasThem) {
  using Runs = std::vector<TextRun>;
  EXPECT_EQ(split_languages("בשנת 2024 נולדתי", "en-us"),
            (Runs{{"he", "בשנת ", false}, {"en-us", "2024 ", false}, {"he", "נולדתי", false}}));
  EXPECT_EQ(split_languages("3.5 שקל", "en-us"),
            (Runs{{"en-us", "3.5 ", false}, {"he", "שקל", false}}));
  EXPECT_EQ(split_languages("привет 5", "en-us"), (Runs{{"ru", "привет 5", false}}));
}

// They came out as "pounds five", and the "minus" of "–5" not at all.
TEST(ToAscii, MoneyAndDashesAreSaid) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"It costs £5.", "It costs 5 pounds."},
      {"£1, £1.00 and £3.50", "1 pound, 1 pound and 3 pounds 50"},
      {"€ 1,200.5 million, £5m, ¥3bn, €20k",
       "1,200.5 million euros, 5 million pounds, 3 billion yen, 20 thousand euros"},
      {"£5 millionaires, £5 men", "5 pounds millionaires, 5 pounds men"},
      {"£5M, €10K, £10million, £1.5tn, £3B",
       "5 million pounds, 10 thousand euros, 10 million pounds, 1.5 trillion pounds, 3 billion "
       "pounds"},
      {"£500pcm and £250ish", " pounds 500pcm and  pounds 250ish"},
      {"£10-15, €5–10 and £10-£20 million",
       "10 to 15 pounds, 5 to 10 euros and 10 to 20 million pounds"},
      {"£5-a-day", "5 pounds-a-day"},
      {"“It costs £5”, £3m–£4m, £5—nothing",
       "\"It costs 5 pounds\", 3 million pounds, 4 million pounds, 5 pounds, nothing"},
      {"“2010–2020”", "\"2010 to 2020\""},
      {"€2024-12-01", " euros 2024-12-01"},
      {"£1½ million", " pounds 1 and 1 half million"},
      {"£ and 5 € 10", " pounds  and 5  euros  10"},
      {"–5 °C, 5–10 km – far", "-5  degrees C, 5 to 10 km ,  far"},
      {"1939–1945, 1914–18, 60–40, 1.5–2", "1939 to 1945, 1914, 18, 60, 40, 1.5, 2"},
  };
  for (const auto& [in, out] : table) {
    EXPECT_EQ(to_ascii(clean_text(in)).value_or(""), out) << in;
  }
}

// espeak-ng left the sign out, and ¾, and said ½ in English.
TEST(WithNumbersSaid, InTheLanguagesWords) {
  struct Said {
    std::string voice, in, out;
  };
  for (const auto& [voice, in, out] :
       std::vector<Said>{{"es", "-5 y ½, 2½; 2-3, a-5", "menos 5 y medio, 2 y medio; 2-3, a-5"},
                         {"es", "¾ (–5)", "tres cuartos (menos 5)"},
                         {"fr", "−5 °C\n-6, le 5 –6 mai", "moins 5 °C\nmoins 6, le 5 –6 mai"},
                         {"fr", "½kg, Windows™ № 5", "un demi kg, Windows  No 5"},
                         {"ru", "Дом № 5", "Дом № 5"},
                         {"ja", "気温は-5度、¥500", "気温はマイナス5度、500円"},
                         {"ja", "10時-12時、¥1,000円、¥5万", "10時-12時、1,000円、5万円"},
                         {"cmn-latn-pinyin",
                          "上午9点-12点, 歼-20, ¥5万, ¥100元",
                          "上午9点-12点, 歼-20, 5万元, 100元"},
                         {"uk", "Школа №5", "Школа номер5"},
                         {"ru", "1½ и ¼", "1 с половиной и четверть"},
                         {"de", "-5, 2½ und ¾", "-5, 2 ½ und ¾"},
                         {"da", "-5 ½", "minus 5 ½"},
                         {"ja", "-5 2¼", "マイナス5 2 と よんぶんのいち"},
                         {"hi", "-5 ½ ¾", "-5 1\u20442 3\u20444"},
                         {"es", "- 5 -x ½", "- 5 -x medio"}}) {
    EXPECT_EQ(with_numbers_said(clean_text(in), voice), out) << voice;
  }
}

// Of short sentences libcld2 is wrong now and then, and sure of it.
TEST(SplitLanguages, WhoIsAskedForByNameReadsWhatMayBeHis) {
  struct Row {
    const char* language;
    const char* text;
    const char* read_by;
  };
  for (const Row& row :
       std::vector<Row>{{"de", "Der Artikel kostet 10 Euro.", "de"},
                        {"fr", "Batterie faible.", "fr"},
                        {"es", "Oferta especial para socios.", "es"},
                        {"en-us", "Pro tip: drink water.", "en-us"},
                        {"en", "I don't wanna die!", "en"},
                        {"de", "The train to the coast leaves in ten minutes.", "en-us"},
                        {"en-us", "Bonjour, le train pour la côte part dans dix minutes.", "fr"},
                        {"ru", "Доброго ранку. Як справи?", "uk"},
                        {"es",
                         "O comboio para a costa parte daqui a dez minutos da linha três. Os "
                         "passageiros que ainda não têm "
                         "bilhete podem comprá-lo na bilheteira ao lado da entrada principal, que "
                         "está aberta até às oito "
                         "horas da noite.",
                         "pt"}}) {
    const auto runs = split_languages(row.text, row.language, true);
    ASSERT_EQ(runs.size(), 1U) << row.text;
    EXPECT_EQ(runs.front().language, row.read_by) << row.text;
  }
}

TEST(SplitLanguages, Table) {
  const std::vector<Split> table = {
      {"one language", "en-us", "Hello, 42!", {{"en-us", "Hello, 42!"}}},
      {"only digits", "de", "42", {{"de", "42"}}},
      {"preset reads Latin", "fr", "Salut", {{"fr", "Salut"}}},
      {"Latin for a voice of another script", "ru", "Hello", {{"en-us", "Hello"}}},
      {"three scripts",
       "en-us",
       "Hello 世界 привет.",
       {{"en-us", "Hello "}, {"cmn-latn-pinyin", "世界 "}, {"ru", "привет."}}},
      {"digits stay", "en-us", "世界 42 a", {{"cmn-latn-pinyin", "世界 42 "}, {"en-us", "a"}}},
      {"leading punctuation waits", "en-us", "«12 привет»", {{"ru", "«12 привет»"}}},
      {"kana make Han Japanese", "en-us", "東京へ", {{"ja", "東京へ"}}},
      {"the Japanese voice makes Han Japanese", "ja", "東京", {{"ja", "東京"}}},
      {"Han alone", "en-us", "東京", {{"cmn-latn-pinyin", "東京"}}},
      {"emoji are English",
       "de",
       "Gut 😀! Ja",
       {{"de", "Gut "}, {"en-us", "😀! ", true}, {"de", "Ja"}}},
      {"digits after emoji return",
       "ru",
       "да 😀 5",
       {{"ru", "да "}, {"en-us", "😀 ", true}, {"ru", "5"}}},
      {"digits after leading emoji", "de", "😀5 6 ja", {{"en-us", "😀", true}, {"de", "5 6 ja"}}},
      {"flags and skin tones", "en-us", "🇪🇺👍🏽", {{"en-us", "🇪🇺👍🏽", true}}},
      {"Korean", "en-us", "안녕", {{"ko", "안녕"}}},
      {"Arabic", "en-us", "مرحبا", {{"ar", "مرحبا"}}},
      {"Hebrew", "en-us", "שלום", {{"he", "שלום"}}},
      {"Hindi", "en-us", "नमस्ते", {{"hi", "नमस्ते"}}},
      {"Thai", "en-us", "สวัสดี", {{"th", "สวัสดี"}}},
      {"Greek", "en-us", "γεια", {{"el", "γεια"}}},
      {"empty", "en-us", "", {}},
      {"French for an English voice",
       "en-us",
       "Bonjour, le train pour la côte part dans dix minutes.",
       {{"fr", "Bonjour, le train pour la côte part dans dix minutes."}}},
      {"English for a German voice",
       "de",
       "The train to the coast leaves in ten minutes.",
       {{"en-us", "The train to the coast leaves in ten minutes."}}},
      {"British English stays British",
       "en",
       "The train to the coast leaves in ten minutes.",
       {{"en", "The train to the coast leaves in ten minutes."}}},
      {"one word says too little", "de", "Ciao", {{"de", "Ciao"}}},
      {"Ukrainian", "ru", "Доброго ранку. Як справи?", {{"uk", "Доброго ранку. Як справи?"}}},
      {"two Ukrainian words", "ru", "Привіт світ", {{"uk", "Привіт світ"}}},
      {"an apostrophe that is a letter", "en-us", "здоров\u02BCя є", {{"uk", "здоров\u02BCя є"}}},
      {"Russian", "ru", "Доброе утро. Как дела?", {{"ru", "Доброе утро. Как дела?"}}},
      {"Bulgarian",
       "ru",
       "Добро утро. Влакът тръгва след десет минути.",
       {{"bg", "Добро утро. Влакът тръгва след десет минути."}}},
      {"Persian", "ar", "سلام دنیا. حال شما چطور است؟", {{"fa", "سلام دنیا. حال شما چطور است؟"}}},
      {"one Persian word", "ar", "چطور", {{"fa", "چطور"}}},
      {"Urdu", "ar", "آپ کیسے ہیں؟", {{"ur", "آپ کیسے ہیں؟"}}},
      {"what tells no more is the voice's own", "uk", "Так", {{"uk", "Так"}}},
      {"of any script", "fa", "سلام", {{"fa", "سلام"}}},
      {"but not of another", "fa", "Так", {{"ru", "Так"}}},
      {"each script by itself",
       "en-us",
       "Good morning, how are you today? Доброго ранку.",
       {{"en-us", "Good morning, how are you today? "}, {"uk", "Доброго ранку."}}},
  };
  for (const Split& row : table) {
    EXPECT_EQ(split_languages(row.in, row.language), row.out) << row.name;
  }
}

// What all scripts share, and stands before the first letter, is spoken where it stands.
TEST(Languages, DigitsBetweenPicturesKeepTheirPlaces) {
  std::string spoken;
  for (const TextRun& run : split_languages("🔥 3 🔥 2 go", "en-us")) {
    spoken += run.text;
  }
  EXPECT_EQ(spoken, "🔥 3 🔥 2 go");
}

TEST(HasVoices, IsFalseForScriptsThatNobodyReads) {
  for (const char* text :
       {"", "Hello, 42!", "你好", "привет", "\u02BBokina", "ᏣᎳᎩ", "𝓗", "😀", "ⁿ"}) {
    EXPECT_TRUE(has_voices(clean_text(text))) << text;
  }
  for (const char* text : {"བོད་ཡིག", "ភាសាខ្មែរ", "ພາສາລາວ", "ދިވެހި", "Tibetan: བོད"}) {
    EXPECT_FALSE(has_voices(clean_text(text))) << text;
  }
}

// Hands and faces of kaomoji, and Bopomofo in Taiwanese slang.
TEST(HasVoices, DecorationIsDropped) {
  for (const auto& [in, out] : std::vector<std::pair<std::string, std::string>>{
           {"We have won the cup \u1555( \u141B )\u1557", "We have won the cup  (   ) "},
           {"Good night, everybody \uA20D!", "Good night, everybody  !"},
           {"Look at this bird \U00013189\U00013189", "Look at this bird   "},
           {"今天真的好熱\u311B", "今天真的好熱 "},
           {"Half a syllable \u0F56\u0F7C here", "Half a syllable    here"},
           {"здоров\u02BCя", "здоров'я"}}) {
    EXPECT_TRUE(has_voices(clean_text(in))) << in;
    EXPECT_EQ(drop_unread(clean_text(in)), out) << in;
  }
}

TEST(HasVoices, WordsAreNoDecoration) {
  const std::string around = "This is a long text in plain English, with one word of another: ";
  EXPECT_FALSE(has_voices(clean_text(around + "\u1780\u17C1\u1784\u1780"))) << "with a mark inside";
  EXPECT_FALSE(has_voices(clean_text(around + "བོད་ཡིག"))) << "of two syllables";
  EXPECT_TRUE(has_voices("abcd\u1555")) << "a fifth";
  EXPECT_FALSE(has_voices("abc\u1555")) << "more than a fifth";
}

TEST(SplitLanguages, IsBoundedAndLosesNothing) {
  const std::string text = repeat("aя", 2000);
  const std::vector<TextRun> runs = split_languages(text, "en-us");
  EXPECT_EQ(runs.size(), kRunsMax);
  std::string joined;
  for (const TextRun& run : runs) {
    joined += run.text;
  }
  EXPECT_EQ(joined, text);
}

// Alone, "Привет" would be spoken in Russian, and so would "тому" if "їжак" did not stand beside
// it.
TEST(SplitLanguages, PiecesOfOneTextAreInOneLanguage) {
  using Runs = std::vector<std::vector<TextRun>>;
  EXPECT_EQ(split_languages(std::vector<std::string>{}, "en-us"), Runs{});
  EXPECT_EQ(split_languages(std::vector<std::string>{"", "Hello", ""}, "en-us"),
            (Runs{{}, {{"en-us", "Hello"}}, {}}));
  EXPECT_EQ(split_languages(std::vector<std::string>{"тому", "її їжак"}, "ru"),
            (Runs{{{"uk", "тому"}}, {{"uk", "її їжак"}}}));
  EXPECT_EQ(split_languages(std::vector<std::string>{"Hello, ", "世界 ", "(1) world."}, "en-us"),
            (Runs{{{"en-us", "Hello, "}},
                  {{"cmn-latn-pinyin", "世界 "}},
                  {{"cmn-latn-pinyin", "(1) "}, {"en-us", "world."}}}));
  // As many pieces as there can be, and pictures at their edges.
  std::vector<std::string> many(700, "a😀");
  const Runs runs = split_languages(many, "en-us");
  ASSERT_EQ(runs.size(), many.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string text;
    for (const TextRun& run : runs[i]) {
      text += run.text;
    }
    EXPECT_EQ(text, many[i]);
  }
}

TEST(SplitSentences, CutsAfterSentencesAndAtSpaces) {
  const std::vector<TextRun> runs = {{"en-us", "One. Two! 3.5 is three? yes\nno"},
                                     {"ja", "あ。い"}};
  const std::vector<TextRun> expected = {{"en-us", "One. "},
                                         {"en-us", "Two! "},
                                         {"en-us", "3.5 is three? "},
                                         {"en-us", "yes\n"},
                                         {"en-us", "no"},
                                         {"ja", "あ。"},
                                         {"ja", "い"}};
  EXPECT_EQ(split_sentences(runs, 400), expected);
  for (const TextRun& run : split_sentences({{"en-us", repeat("word ", 500)}}, 400)) {
    EXPECT_LE(run.text.size(), 405U);
  }
  for (const TextRun& run : split_sentences({{"en-us", std::string(5000, 'x')}}, 400)) {
    EXPECT_LE(run.text.size(), 800U);
  }
}

}  // namespace
}  // namespace audiogen
