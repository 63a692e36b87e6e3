#include "tests/support/hearing.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/ffmpeg.h"

namespace audiogen::test {
namespace {

// Lower case, without punctuation, and without the marks "(2)" of other pronunciations.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  std::istringstream stream{std::string(text)};
  for (std::string word; stream >> word;) {
    word.resize(std::min(word.size(), word.find('(')));
    std::erase_if(word, [](unsigned char c) { return std::isalpha(c) == 0; });
    std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) {
      return static_cast<char>(std::tolower(c));
    });
    if (!word.empty()) {
      out.push_back(std::move(word));
    }
  }
  return out;
}

// A line for each file: its words and, in brackets, its name and score.
std::string heard(std::span<const std::string> speech) {
  const std::string model = "/usr/share/pocketsphinx/model/en-us/";
  std::string folder = (std::filesystem::temp_directory_path() / "speech_XXXXXX").string();
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  {
    std::ofstream names(folder + "/names");
    for (std::size_t i = 0; i < speech.size(); ++i) {
      names << i << '\n';
      std::ofstream(folder + '/' + std::to_string(i) + ".wav", std::ios::binary) << speech[i];
    }
  }
  std::string command = "pocketsphinx_batch -adcin yes -adchdr 44 -cepext .wav -logfn /dev/null";
  command += " -hmm " + model + "en-us -lm " + model + "en-us.lm.bin";
  command += " -dict " + model + "cmudict-en-us.dict -ctl " + folder + "/names";
  command += " -cepdir " + folder + " -hyp " + folder + "/heard";
  output_of(command + " 2>&1");
  std::ifstream file(folder + "/heard");
  std::string out{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::filesystem::remove_all(folder);
  return out;
}

// How many words have to be changed, taken out or put in: the distance of Levenshtein, by rows.
std::size_t distance(const std::vector<std::string>& said, const std::vector<std::string>& words) {
  std::vector<std::size_t> row(words.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < said.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < words.size(); ++j) {
      const std::size_t replaced = diagonal + (said[i] == words[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

double word_errors(std::span<const std::string> speech) {
  EXPECT_EQ(speech.size(), kPlainEnglish.size());
  std::istringstream lines(heard(speech));
  std::size_t errors = 0, words = 0;
  for (const std::string_view sentence : kPlainEnglish) {
    std::string line;
    EXPECT_TRUE(std::getline(lines, line)) << "the recogniser did not hear every file";
    const std::vector<std::string> said = words_of(sentence);
    errors += distance(said, words_of(line.substr(0, line.rfind('('))));
    words += said.size();
  }
  return static_cast<double>(errors) / static_cast<double>(words);
}

namespace {

// The pitch at every hundredth of a second, where there is one between `low` and `high`.
std::vector<std::optional<double>> pitch_track(std::span<const float> samples,
                                               int rate,
                                               double low,
                                               double high) {
  constexpr double kVoiced = 0.6, kNearlyBest = 0.9, kAudible = 0.3;
  const auto shortest = static_cast<std::size_t>(rate / high);
  const auto longest = static_cast<std::size_t>(rate / low) + 2;
  const std::size_t window = std::max(longest * 2, static_cast<std::size_t>(rate / 40));
  const auto hop = static_cast<std::size_t>(rate / 100);
  const auto product = [&](std::size_t one, std::size_t other, std::size_t count) {
    double sum = 1e-12;
    for (std::size_t i = 0; i < count; ++i) {
      sum += static_cast<double>(samples[one + i]) * static_cast<double>(samples[other + i]);
    }
    return sum;
  };
  const double mean = product(0, 0, samples.size()) / static_cast<double>(samples.size() + 1);
  std::vector<std::optional<double>> out(samples.size() / hop);
  for (std::size_t frame = 0; frame < out.size(); ++frame) {
    const std::size_t half = (window + longest) / 2;
    if (frame * hop < half || frame * hop + half + 1 > samples.size()) {
      continue;
    }
    const std::size_t at = frame * hop - half;
    const double here = product(at, at, window);
    if (here < kAudible * mean * static_cast<double>(window)) {
      continue;
    }
    std::vector<double> likeness(longest + 1, 0.0);
    for (std::size_t lag = shortest; lag <= longest; ++lag) {
      likeness[lag] =
          product(at, at + lag, window) / std::sqrt(here * product(at + lag, at + lag, window));
    }
    const double best = *std::max_element(likeness.begin(), likeness.end());
    for (std::size_t lag = shortest + 1; best > kVoiced && lag < longest; ++lag) {
      const double a = likeness[lag - 1], b = likeness[lag], c = likeness[lag + 1];
      // The first peak that is nearly as good as the best: the others are its multiples.
      if (b > kNearlyBest * best && b >= a && b > c) {
        out[frame] = rate / (static_cast<double>(lag) + 0.5 * (a - c) / (a - 2 * b + c));
        break;
      }
    }
  }
  return out;
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) {
    return std::nullopt;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<double> median_pitch(std::span<const float> samples,
                                   int rate,
                                   double low,
                                   double high) {
  std::vector<double> found;
  for (const std::optional<double>& pitch : pitch_track(samples, rate, low, high)) {
    if (pitch) {
      found.push_back(*pitch);
    }
  }
  return median(std::move(found));
}

std::optional<double> pitch_shift(std::span<const float> plain,
                                  std::span<const float> shifted,
                                  int rate,
                                  double semitones) {
  constexpr double kNear = 1.4;  // less than half an octave to either side: never wrong by one
  const std::optional<double> rough = median_pitch(plain, rate, 60, 400);
  if (!rough) {
    return std::nullopt;
  }
  const double there = *rough * std::pow(2.0, semitones / 12);
  const auto before = pitch_track(plain, rate, *rough / kNear, *rough * kNear);
  const auto after = pitch_track(shifted, rate, there / kNear, there * kNear);
  std::vector<double> found;
  for (std::size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    if (before[i] && after[i]) {
      found.push_back(12 * std::log2(*after[i] / *before[i]));
    }
  }
  return median(std::move(found));
}

}  // namespace audiogen::test
