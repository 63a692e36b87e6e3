#include "worker/local/stage.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "worker/audio/levels.h"

namespace audiogen {
namespace {

constexpr std::size_t kPause = samples_in(0.15);       // before and after a sound
constexpr std::size_t kAlone = samples_in(1.2);        // an ambience, before what follows it
constexpr std::size_t kAmbienceLeast = samples_in(5);  // one that lasts to the end
constexpr std::size_t kAfterwards = samples_in(1.2);   // ambiences, after all else
constexpr std::size_t kFadeIn = samples_in(0.6);       // of an ambience
constexpr std::size_t kFadeOut = samples_in(1.0);      // the same; a silence is as long
constexpr std::size_t kDuckBefore = samples_in(0.25);  // an ambience goes down before words
constexpr std::size_t kDuckAfter = samples_in(0.6);    // and comes back after them
constexpr std::size_t kMeasured = samples_in(10);      // of an ambience, for its level

// LUFS of each for itself; what comes of them together is brought to its level afterwards.
constexpr double kWordsLevel = -18, kSoundLevel = -20, kAmbienceLevel = -25;
constexpr double kDucked = 0.4;  // is left of an ambience under words: 8 dB less
constexpr float kPeakMax = 0.98F;

// From `begin` to before `end`, in samples.
struct Span {
  std::size_t begin = 0, end = 0;
};

void amplify(std::span<float> samples, double factor) {
  for (float& sample : samples) {
    sample *= static_cast<float>(factor);
  }
}

// By what `samples` come to `lufs`; 1 where they cannot be measured, being silent.
double gain_to(double lufs, std::span<const float> samples) {
  const auto loudness = is_silent(samples) ? std::nullopt : measure_loudness(samples, kSoundRate);
  return loudness ? std::pow(10.0, (lufs - loudness->lufs) / 20.0) : 1.0;
}

// 0 at its ends, 1 in its middle, `count` samples long, at `i`.
double faded(std::size_t i, std::size_t count) {
  return std::min({1.0,
                   static_cast<double>(i) / static_cast<double>(kFadeIn),
                   static_cast<double>(count - i) / static_cast<double>(kFadeOut)});
}

class Stage {
 public:
  Stage(std::uint64_t seed, std::size_t samples_max) : seed_(seed), most_(samples_max) {}

  bool is_full() const { return at_ >= most_; }

  void add(const StageItem& item) {
    ++items_;
    if (!item.cue) {
      add_words(item.words);
    } else if (*item.cue == Cue::kSilence) {
      end_ambiences(at_ + kFadeOut);
      at_ += kFadeOut;
    } else if (is_ambience(*item.cue)) {
      begin_ambience(*item.cue);
    } else {
      at_ += kPause;
      sounds_.push_back({*item.cue, {at_, at_ + sound_length(*item.cue)}, next_seed()});
      at_ = sounds_.back().span.end + kPause;
    }
  }

  std::vector<float> finish() && {
    if (!open_.empty()) {
      at_ += kAfterwards;
      for (const Heard& ambience : open_) {
        at_ = std::max(at_, ambience.span.begin + kAmbienceLeast);
      }
      end_ambiences(at_);
    }
    out_.resize(std::min(at_, most_));
    amplify(out_, gain_to(kWordsLevel, out_));
    for (const Heard& sound : sounds_) {
      const std::vector<float> samples = make_sound(sound.cue, sound.seed);
      mix(samples, sound.span.begin, gain_to(kSoundLevel, samples));
    }
    mix_ambiences();
    if (const float peak = peak_of(out_); peak > kPeakMax) {
      amplify(out_, static_cast<double>(kPeakMax / peak));
    }
    return std::move(out_);
  }

 private:
  struct Heard {
    Cue cue;
    Span span;
    std::uint64_t seed;
  };

  std::uint64_t next_seed() const { return seed_ + 0x9E3779B97F4A7C15U * items_; }

  void add_words(std::span<const float> words) {
    out_.resize(std::min(at_, most_));
    out_.insert(
        out_.end(),
        words.begin(),
        words.begin() + static_cast<std::ptrdiff_t>(std::min(words.size(), most_ - out_.size())));
    spoken_.push_back({at_, at_ + words.size()});
    at_ += words.size();
  }

  void begin_ambience(Cue cue) {
    const bool heard = std::any_of(
        open_.begin(), open_.end(), [&](const Heard& ambience) { return ambience.cue == cue; });
    if (!heard) {
      open_.push_back({cue, {at_, at_}, next_seed()});
      at_ += kAlone;
    }
  }

  void end_ambiences(std::size_t end) {
    for (Heard& ambience : open_) {
      ambience.span.end = std::min(end, most_);
      ambiences_.push_back(ambience);
    }
    open_.clear();
  }

  void mix(std::span<const float> samples, std::size_t at, double gain) {
    const std::size_t count = std::min(samples.size(), out_.size() - std::min(at, out_.size()));
    for (std::size_t i = 0; i < count; ++i) {
      out_[at + i] += samples[i] * static_cast<float>(gain);
    }
  }

  // How much of an ambience is left at each sample, for the words that are spoken then.
  std::vector<float> ducking() const {
    std::vector<float> out(out_.size(), 1.0F);
    const auto lower = [&](std::size_t i, double down) {
      if (i < out.size()) {
        out[i] = std::min(out[i], static_cast<float>(1 - (1 - kDucked) * down));
      }
    };
    for (const Span& words : spoken_) {
      for (std::size_t i = 0; i < std::min(kDuckBefore, words.begin); ++i) {
        lower(words.begin - 1 - i, 1 - static_cast<double>(i) / static_cast<double>(kDuckBefore));
      }
      for (std::size_t i = words.begin; i < std::min(words.end, out.size()); ++i) {
        lower(i, 1);
      }
      for (std::size_t i = 0; i < kDuckAfter; ++i) {
        lower(words.end + i, 1 - static_cast<double>(i) / static_cast<double>(kDuckAfter));
      }
    }
    return out;
  }

  void mix_ambiences() {
    if (ambiences_.empty()) {
      return;
    }
    const std::vector<float> left = ducking();
    for (const Heard& ambience : ambiences_) {
      const Span& span = ambience.span;
      std::vector<float> samples =
          make_ambience(ambience.cue, ambience.seed, span.end - span.begin);
      const double gain =
          gain_to(kAmbienceLevel, std::span(samples).first(std::min(kMeasured, samples.size())));
      for (std::size_t i = 0; i < samples.size(); ++i) {
        samples[i] *= static_cast<float>(faded(i, samples.size()) *
                                         static_cast<double>(left[span.begin + i]));
      }
      mix(samples, span.begin, gain);
    }
  }

  const std::uint64_t seed_;
  const std::size_t most_;
  std::size_t at_ = 0;  // where the next item begins; it may lie beyond the end
  std::uint64_t items_ = 0;
  std::vector<float> out_;  // at first the words alone
  std::vector<Span> spoken_;
  std::vector<Heard> sounds_, ambiences_;
  std::vector<Heard> open_;  // ambiences that nothing has ended
};

}  // namespace

std::vector<float> perform(const std::vector<StageItem>& items,
                           std::uint64_t seed,
                           std::size_t samples_max) {
  Stage stage(seed, samples_max);
  for (const StageItem& item : items) {
    if (stage.is_full()) {
      break;
    }
    stage.add(item);
  }
  return std::move(stage).finish();
}

}  // namespace audiogen
