// Prepares a prompt for a speech engine: cleaning, and cutting into runs of one language. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace audiogen {

// A run of text for one voice.
struct TextRun {
  std::string language;  // an espeak-ng voice name such as "en-us", "cmn-latn-pinyin"
  std::string text;      // valid UTF-8
  bool emoji = false;    // pictures, named in English
  friend bool operator==(const TextRun&, const TextRun&) = default;
};

// NFKC; controls (except line ends), bidirectional and private characters become spaces; joiners
// and variation selectors stay only inside emoji; at most four marks per letter; a space for marks
// that engines would name ("~"), and between a number and its fraction or exponent; one after 40
// characters without one, since long runs overflow buffers of speech engines, but not where they
// end words by themselves, as at Chinese characters, of which a hundred have a pause behind them.
// At most kCleanMax code points. Empty when `prompt` is no valid UTF-8.
std::string clean_text(std::string_view prompt);
inline constexpr std::size_t kCleanMax = 8192;  // far more than two minutes of speech

// Without the marks "@Audio1" to "@Audio3" that point at references: they are not to be spoken.
std::string strip_reference_marks(std::string_view prompt);

// True when a voice can find something to say: a letter, digit, symbol or sentence mark.
bool is_speakable(std::string_view text);

// True when there is a word to say: a letter or a digit.
bool has_words(std::string_view text);

// True when there is a letter.
bool has_letters(std::string_view text);

// True when there is more than punctuation: a letter, digit, symbol or picture.
bool has_more_than_marks(std::string_view text);

// Cleaned text for an engine that knows English and ASCII alone: letters without their marks,
// digits of every script as its own, fractions and a few signs as words, a space for everything
// else. Nullopt where a letter or a number would be lost by that, or no word is left.
std::optional<std::string> to_ascii(std::string_view text);

// Whether voices read the text: of its letters at most a fifth are of scripts that none reads, and
// never three on end. Fewer are decoration, such as the hands of a kaomoji.
bool has_voices(std::string_view text);

// A space for each letter that no voice reads, and for its marks.
std::string drop_unread(std::string_view text);

// Cuts cleaned text by script, and finds the language of each (worker/local/language.h). `language`
// is the voice's own: it speaks what neither decides. Punctuation and digits stay with the run
// before them, but where its voice has no numbers: those are English. `named`: the client asked for
// this voice, so that another language takes the text from it only if it would be told from the
// voice's own also by who expects that. At most kRunsMax runs: the last one then holds the rest.
std::vector<TextRun> split_languages(std::string_view text,
                                     std::string_view language,
                                     bool named = false);
inline constexpr std::size_t kRunsMax = 1024;

// The same of pieces of one text, which are spoken apart: the runs of each. What decides on a
// language is all of the text.
std::vector<std::vector<TextRun>> split_languages(const std::vector<std::string>& pieces,
                                                  std::string_view language,
                                                  bool named = false);

// Cuts every run after its sentences, and at a space where a sentence is longer than `bytes_max`.
std::vector<TextRun> split_sentences(const std::vector<TextRun>& runs, std::size_t bytes_max);

}  // namespace audiogen
