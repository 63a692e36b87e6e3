#include "worker/local/sounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "common/base/check.h"

namespace audiogen {
namespace {

constexpr double kRate = kSoundRate;

// SplitMix64. Distributions of the standard library differ between its implementations.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11U) * 0x1.0p-53;
  }
  double noise() { return between(-1, 1); }
  // True `times` a second, in the mean, of what asks for every sample.
  bool happens(double times) { return between(0, kRate) < times; }

 private:
  std::uint64_t state_;
};

// Lets what is below `hz` pass, 6 dB an octave.
class LowPass {
 public:
  explicit LowPass(double hz) : part_(1 - std::exp(-2 * std::numbers::pi * hz / kRate)) {}
  double operator()(double in) { return out_ += part_ * (in - out_); }

 private:
  double part_, out_ = 0;
};

class HighPass {
 public:
  explicit HighPass(double hz) : low_(hz) {}
  double operator()(double in) { return in - low_(in); }

 private:
  LowPass low_;
};

// Lets a band around a frequency pass, 1 in its middle (a state-variable filter by the trapezoidal
// rule, which stays stable while it is tuned).
class BandPass {
 public:
  BandPass(double hz, double q) : damping_(1 / q) { tune(hz); }
  void tune(double hz) {
    g_ = std::tan(std::numbers::pi * hz / kRate);
    scale_ = 1 / (1 + g_ * (g_ + damping_));
  }
  double operator()(double in) {
    const double high = (in - (g_ + damping_) * band_ - low_) * scale_;
    const double band = g_ * high + band_;
    const double low = g_ * band + low_;
    band_ = g_ * high + band;
    low_ = g_ * band + low;
    return band * damping_;
  }

 private:
  double damping_, g_ = 0, scale_ = 0, band_ = 0, low_ = 0;
};

// Wanders between 0 and 1, a new way about `times` a second.
class Wander {
 public:
  Wander(double times, Random& random) : times_(times), at_(random.between(0, 1)) { turn(random); }
  double operator()(Random& random) {
    if (left_-- == 0) {
      turn(random);
    }
    return at_ += step_;
  }

 private:
  void turn(Random& random) {
    left_ = samples_in(random.between(0.6, 1.4) / times_);
    step_ = (random.between(0, 1) - at_) / static_cast<double>(left_ + 1);
  }

  double times_, at_, step_ = 0;
  std::size_t left_ = 0;
};

// Adds a tone from `at` on that falls to a thousandth in `seconds`; what lies beyond the end is
// left out. It glides from `from` to `to` Hz.
void add_tone(
    std::span<float> out, std::size_t at, double from, double to, double seconds, double level) {
  constexpr double kAttackSeconds = 0.002;
  const double fall = std::exp(std::log(0.001) / (seconds * kRate));
  const double glide = std::pow(to / from, 1 / (seconds * kRate));
  const std::size_t end = std::min(out.size(), at + samples_in(seconds));
  double phase = 0, step = 2 * std::numbers::pi * from / kRate, gain = level;
  for (std::size_t i = at; i < end; ++i) {
    const double attack = std::min(1.0, static_cast<double>(i - at) / (kAttackSeconds * kRate));
    out[i] += static_cast<float>(gain * attack * std::sin(phase));
    phase += step;
    step *= glide;
    gain *= fall;
  }
}

// The same of noise in a band.
void add_burst(std::span<float> out,
               std::size_t at,
               BandPass band,
               double seconds,
               double level,
               Random& random) {
  const double fall = std::exp(std::log(0.001) / (seconds * kRate));
  const std::size_t end = std::min(out.size(), at + samples_in(seconds));
  double gain = level;
  for (std::size_t i = at; i < end; ++i) {
    out[i] += static_cast<float>(gain * band(random.noise()));
    gain *= fall;
  }
}

// Noise under sounds that are mostly pauses, as every place has.
void add_air(std::span<float> out, double hz, double level, Random& random) {
  LowPass low(hz);
  for (float& sample : out) {
    sample += static_cast<float>(level * low(random.noise()));
  }
}

// Rounds the attacks off: knocks are hardly louder than what a level can hold of them, else their
// peaks would keep all that is heard with them quiet.
void soften(std::span<float> out, double drive) {
  for (float& sample : out) {
    sample = static_cast<float>(std::tanh(drive * static_cast<double>(sample)));
  }
}

// Calls `make(at)` about `times` a second.
template <class Make>
void scatter(std::size_t count, double times, Random& random, const Make& make) {
  for (double at = random.between(0, 1) / times; at * kRate < static_cast<double>(count);
       at += random.between(0.2, 1.8) / times) {
    make(static_cast<std::size_t>(at * kRate));
  }
}

void rain(std::span<float> out, Random& random) {
  HighPass high(900);
  LowPass low(7000), rumble(250);
  Wander gust(0.7, random);
  for (float& sample : out) {
    const double noise = random.noise();
    sample =
        static_cast<float>((0.75 + 0.25 * gust(random)) * (low(high(noise)) + 0.5 * rumble(noise)));
  }
  scatter(out.size(), 90, random, [&](std::size_t at) {
    const double hz = random.between(1500, 5500);
    add_tone(out, at, hz, hz * 1.2, 0.012, random.between(0.1, 0.9));
  });
}

void wind(std::span<float> out, Random& random) {
  BandPass low(300, 1.2), high(700, 6);
  Wander gust(0.6, random), howl(0.9, random);
  constexpr std::size_t kTuned = 32;  // samples between two frequencies
  double strength = 0.5, pitch = 0.5;
  for (std::size_t i = 0; i < out.size(); ++i) {
    strength = gust(random);
    pitch = howl(random);
    if (i % kTuned == 0) {
      low.tune(220 + 260 * strength);
      high.tune(420 + 500 * (0.6 * strength + 0.4 * pitch));
    }
    const double noise = random.noise();
    out[i] = static_cast<float>((0.35 + 0.65 * strength) * low(noise) +
                                0.8 * (0.1 + strength * strength) * high(noise));
  }
}

void waves(std::span<float> out, Random& random) {
  LowPass deep(350), bright(3500);
  HighPass high(120);
  double phase = random.between(0, 1), period = random.between(5, 8);
  for (float& sample : out) {
    phase += 1 / (period * kRate);
    if (phase >= 1) {
      phase -= 1;
      period = random.between(5, 8);
    }
    // Rises for a third of its time, breaks, and runs out.
    const double swell = phase < 0.35 ? std::pow(phase / 0.35, 2) : std::exp(-3 * (phase - 0.35));
    const double noise = high(random.noise());
    sample = static_cast<float>((0.25 + swell) * deep(noise) * 1.5 +
                                (0.08 + swell * swell) * bright(noise) * 0.7);
  }
}

void fire(std::span<float> out, Random& random) {
  LowPass roar(220), hiss(4000);
  HighPass above(1500);
  Wander flame(3, random);
  for (float& sample : out) {
    const double noise = random.noise();
    sample = static_cast<float>((0.5 + 0.5 * flame(random)) * roar(noise) * 1.8 +
                                0.12 * above(hiss(noise)));
  }
  scatter(out.size(), 14, random, [&](std::size_t at) {
    const double strength = std::pow(random.between(0, 1), 3);
    add_burst(out,
              at,
              BandPass(random.between(900, 3200), 2),
              random.between(0.01, 0.05),
              0.25 + 1.6 * strength,
              random);
  });
}

void birds(std::span<float> out, Random& random) {
  add_air(out, 1500, 0.05, random);
  scatter(out.size(), 1.6, random, [&](std::size_t at) {
    const double middle = random.between(2000, 3300);
    const double level = random.between(0.15, 0.6);
    const double seconds = random.between(0.07, 0.16);
    const int notes = static_cast<int>(random.between(2, 7));
    const bool rises = random.between(0, 1) < 0.5;
    for (int i = 0; i < notes; ++i) {
      const double high = middle * random.between(1.02, 1.15), low = middle * 0.85;
      add_tone(out, at, rises ? low : high, rises ? high : low, seconds * 1.6, level);
      at += samples_in(seconds * random.between(1.0, 1.3));
    }
  });
}

void crickets(std::span<float> out, Random& random) {
  add_air(out, 900, 0.06, random);
  // Each chirps three pulses, at its own pace and pitch.
  for (const double pace : {2.1, 2.6, 1.7}) {
    const double hz = random.between(2900, 3400), level = random.between(0.15, 0.35);
    for (double at = random.between(0, 1) / pace; at * kRate < static_cast<double>(out.size());
         at += random.between(0.94, 1.06) / pace) {
      for (int pulse = 0; pulse < 3; ++pulse) {
        add_tone(out, samples_in(at + pulse * 0.045), hz, hz, 0.09, level);
      }
    }
  }
}

void clock(std::span<float> out, Random& random) {
  add_air(out, 400, 0.05, random);
  bool tick = true;
  for (double at = random.between(0, 0.5); at * kRate < static_cast<double>(out.size());
       at += 0.5) {
    const double up = tick ? 1.0 : 0.82;
    const std::size_t from = samples_in(at);
    add_burst(out, from, BandPass(2600 * up, 3), 0.08, 0.9, random);
    add_tone(out, from, 1450 * up, 1430 * up, 0.16, 0.35);
    add_tone(out, from, 520 * up, 510 * up, 0.22, 0.25);
    tick = !tick;
  }
  soften(out, 4);
}

void heartbeat(std::span<float> out, Random& random) {
  add_air(out, 150, 0.03, random);
  for (double at = random.between(0, 0.4); at * kRate < static_cast<double>(out.size());
       at += random.between(0.82, 0.88)) {
    for (const auto& [later, hz, level] :
         {std::array{0.0, 72.0, 1.0}, std::array{0.28, 88.0, 0.75}}) {
      const std::size_t from = samples_in(at + later);
      add_tone(out, from, hz * 1.3, hz * 0.8, 0.28, level);
      add_tone(out, from, hz * 2.6, hz * 1.9, 0.18, 0.35 * level);
    }
  }
  soften(out, 1.6);
}

void applause(std::span<float> out, Random& random) {
  const auto count = static_cast<double>(out.size());
  scatter(out.size(), 260, random, [&](std::size_t at) {
    // Comes fast and thins out.
    const double when = static_cast<double>(at) / count;
    const double level = std::min(when / 0.08, 1.0) * std::min((1 - when) / 0.45, 1.0);
    add_burst(out,
              at,
              BandPass(random.between(800, 2600), 1.5),
              random.between(0.02, 0.045),
              level * random.between(0.3, 1.0),
              random);
  });
}

void bell(std::span<float> out, Random& random) {
  struct Partial {
    double times, seconds, level;
  };
  // Of a church bell: hum, prime, minor third, fifth, octave, and what is above.
  constexpr auto kPartials = std::to_array<Partial>({{0.5, 2.5, 0.25},
                                                     {1.0, 2.3, 0.4},
                                                     {1.19, 1.8, 0.3},
                                                     {1.5, 1.4, 0.2},
                                                     {2.0, 1.6, 0.45},
                                                     {2.51, 0.9, 0.2},
                                                     {2.66, 0.8, 0.2},
                                                     {3.01, 0.7, 0.2},
                                                     {4.16, 0.45, 0.15}});
  const double prime = random.between(560, 700);
  for (const Partial& partial : kPartials) {
    const double hz = prime * partial.times * random.between(0.999, 1.001);
    add_tone(out, 0, hz, hz, partial.seconds, partial.level);
  }
  add_burst(out, 0, BandPass(3000, 1), 0.03, 0.5, random);
}

// A creak, the latch, and the leaf in its frame.
void door(std::span<float> out, Random& random) {
  const std::size_t shut = samples_in(0.62);
  for (double at = 0.02; at < 0.52; at += 1 / random.between(38, 90)) {
    const std::size_t from = samples_in(at);
    add_tone(out, from, 640, 620, 0.025, random.between(0.08, 0.16));
    add_tone(out, from, 1330, 1300, 0.018, random.between(0.04, 0.1));
  }
  add_burst(out, shut - samples_in(0.05), BandPass(2400, 3), 0.03, 0.6, random);
  add_tone(out, shut, 130, 85, 0.5, 0.9);
  add_tone(out, shut, 240, 190, 0.25, 0.4);
  add_burst(out, shut, BandPass(500, 0.7), 0.22, 1.2, random);
  soften(out, 1.6);
}

void knock(std::span<float> out, Random& random) {
  for (double at = 0.01; at < 0.6; at += random.between(0.21, 0.25)) {
    const std::size_t from = samples_in(at);
    add_tone(out, from, 210, 170, 0.2, 0.8);
    add_tone(out, from, 480, 420, 0.12, 0.5);
    add_burst(out, from, BandPass(1100, 1), 0.06, 0.8, random);
  }
  soften(out, 3);
}

void footsteps(std::span<float> out, Random& random) {
  for (double at = 0.02; at < 1.8; at += random.between(0.48, 0.54)) {
    const std::size_t heel = samples_in(at), toe = samples_in(at + random.between(0.09, 0.12));
    add_tone(out, heel, 130, 95, 0.18, 0.7);
    add_burst(out, heel, BandPass(700, 1), 0.09, 0.9, random);
    add_burst(out, toe, BandPass(1500, 0.8), 0.12, 0.45, random);
  }
  soften(out, 3);
}

void siren(std::span<float> out, Random& random) {
  constexpr double kSweepSeconds = 1.5, kFadeSeconds = 0.15;
  const double top = random.between(1150, 1300);
  double phase = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double at = static_cast<double>(i) / kRate;
    const double sweep = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * at / kSweepSeconds);
    phase += 2 * std::numbers::pi * (600 + (top - 600) * sweep) / kRate;
    const double left = (static_cast<double>(out.size() - i)) / kRate;
    const double level = std::min({1.0, at / kFadeSeconds, left / kFadeSeconds});
    out[i] = static_cast<float>(
        0.4 * level * (std::sin(phase) + 0.35 * std::sin(2 * phase) + 0.2 * std::sin(3 * phase)));
  }
}

void thunder(std::span<float> out, Random& random) {
  add_burst(out, samples_in(0.05), BandPass(900, 0.5), 0.5, 1.2, random);
  LowPass first(180), second(260);
  // Rolls in claps, each weaker.
  std::array<std::array<double, 2>, 5> claps{};  // seconds, level
  double at = 0.08;
  for (std::size_t i = 0; i < claps.size(); ++i) {
    claps[i] = {at, random.between(0.5, 1.0) / (1 + 0.5 * static_cast<double>(i))};
    at += random.between(0.3, 0.65);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double now = static_cast<double>(i) / kRate;
    double level = 0;
    for (const auto& [when, strength] : claps) {
      level += now > when
                   ? strength * std::min((now - when) / 0.06, 1.0) * std::exp(-2.2 * (now - when))
                   : 0;
    }
    out[i] += static_cast<float>(6 * level * second(first(random.noise())));
  }
}

// So that nothing clicks where a sound is cut before it has quite died away.
void fade_out(std::span<float> out) {
  const std::size_t count = std::min(out.size(), samples_in(0.05));
  for (std::size_t i = 0; i < count; ++i) {
    out[out.size() - 1 - i] *= static_cast<float>(i) / static_cast<float>(count);
  }
}

using Maker = void (*)(std::span<float> out, Random& random);

struct Recipe {
  Maker make = nullptr;
  double seconds = 0;  // of what is no ambience
};

Recipe recipe_of(Cue cue) {
  switch (cue) {
    case Cue::kApplause:
      return {&applause, 3.5};
    case Cue::kBell:
      return {&bell, 2.5};
    case Cue::kBirds:
      return {&birds};
    case Cue::kClock:
      return {&clock};
    case Cue::kCrickets:
      return {&crickets};
    case Cue::kDoor:
      return {&door, 1.15};
    case Cue::kFire:
      return {&fire};
    case Cue::kFootsteps:
      return {&footsteps, 2.1};
    case Cue::kHeartbeat:
      return {&heartbeat};
    case Cue::kKnock:
      return {&knock, 0.8};
    case Cue::kRain:
      return {&rain};
    case Cue::kSilence:
      return {};
    case Cue::kSiren:
      return {&siren, 3.0};
    case Cue::kThunder:
      return {&thunder, 3.8};
    case Cue::kWaves:
      return {&waves};
    case Cue::kWind:
      return {&wind};
  }
  return {};
}

}  // namespace

std::vector<float> make_ambience(Cue cue, std::uint64_t seed, std::size_t count) {
  AG_CHECK(is_ambience(cue));
  std::vector<float> out(count);
  Random random(seed);
  recipe_of(cue).make(out, random);
  return out;
}

std::vector<float> make_sound(Cue cue, std::uint64_t seed) {
  AG_CHECK(!is_ambience(cue));
  std::vector<float> out(sound_length(cue));
  if (!out.empty()) {
    Random random(seed);
    recipe_of(cue).make(out, random);
    fade_out(out);
  }
  return out;
}

std::size_t sound_length(Cue cue) {
  return samples_in(recipe_of(cue).seconds);
}

}  // namespace audiogen
