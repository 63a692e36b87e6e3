#include "worker/local/local_provider.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/crypto.h"
#include "common/domain/voices.h"
#include "worker/audio/levels.h"
#include "worker/audio/pipeline.h"
#include "worker/audio/stretch.h"
#include "worker/local/numbers.h"
#include "worker/local/stage.h"

namespace audiogen {
namespace {

constexpr std::size_t kSentenceMax = 400;  // bytes; longer ones crash the engine more often
constexpr Range kPace{0.75, 1.35};         // of a reference, times the voice's own

Capabilities local_capabilities(int max_in_flight) {
  Capabilities out;
  for (const Voice& voice : voices()) {
    if (voice.id != kSceneVoice) {
      out.voices.emplace_back(voice.id);
    }
  }
  out.cues = true;
  out.audio_references = true;
  out.native_speed = kSpeedRange;
  out.max_in_flight = max_in_flight;
  out.price = ProviderPrice{PriceUnit::kCall, Micros{0}};
  return out;
}

std::string voice_name(std::string_view language, const LocalVoice& voice) {
  std::string name(language);
  if (!voice.variant.empty()) {
    name += '+';
    name += voice.variant;
  }
  return name;
}

// What flite is to speak of `run`. It speaks English, but for what only espeak-ng has names for:
// pictures, lone marks, and letters that ASCII has nothing for.
std::optional<std::string> text_for_flite(const TextRun& run) {
  const bool english = run.language == "en-us" || run.language == "en";
  return english && !run.emoji ? to_ascii(run.text) : std::nullopt;
}

std::vector<speech::Utterance> utterances_of(const std::vector<TextRun>& runs,
                                             const LocalVoice& voice) {
  std::vector<speech::Utterance> out;
  out.reserve(runs.size());
  for (const TextRun& run : runs) {
    if (auto text = text_for_flite(run)) {
      out.push_back({.voice = std::string(voice.english.name),
                     .text = *std::move(text),
                     .engine = speech::Engine::kFlite,
                     .breath_permille =
                         static_cast<std::uint32_t>(std::lround(voice.english.breath * 1000))});
    } else {
      out.push_back({.voice = voice_name(run.language, voice),
                     .text = with_numbers_said(run.text, run.language),
                     .kanji_to_kana = run.language == "ja"});
    }
  }
  return out;
}

// Has all of `utterances` spoken `semitones` from the voice's own pitch, where flite speaks alone:
// it does exactly what it is told. What espeak-ng's parameter means is up to two semitones more or
// less, by voice, language and text, so of that nothing is asked. Returns how far it was.
double set_pitch(std::vector<speech::Utterance>& utterances,
                 const LocalVoice& voice,
                 double semitones) {
  const auto is_flite = [](const speech::Utterance& utterance) {
    return utterance.engine == speech::Engine::kFlite;
  };
  const double applied =
      std::all_of(utterances.begin(), utterances.end(), is_flite) ? semitones : 0.0;
  for (speech::Utterance& utterance : utterances) {
    utterance.pitch =
        is_flite(utterance)
            ? static_cast<std::int32_t>(std::lround((voice.english.pitch + applied) * 100))
            : voice.pitch;
  }
  return applied;
}

// One text, prepared ever more carefully: what crashed the engine may pass the next time.
std::vector<std::vector<speech::Utterance>> attempts_for(const std::vector<TextRun>& runs,
                                                         const LocalVoice& voice) {
  std::vector<TextRun> plain;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(plain), [](const TextRun& run) {
    return !run.emoji && is_speakable(run.text);
  });
  const std::vector<TextRun> sentences =
      split_sentences(plain.empty() ? runs : plain, kSentenceMax);
  std::vector<std::vector<speech::Utterance>> out = {utterances_of(runs, voice),
                                                     utterances_of(sentences, voice)};
  // Of other letters than Latin ones an English voice would say the names.
  std::vector<speech::Utterance> plainest;
  for (const TextRun& run : sentences) {
    auto text = to_ascii(run.text);
    if (!text && has_words(run.text)) {
      return out;
    }
    if (text) {
      plainest.push_back({.voice = voice_name("en-us", voice), .text = *std::move(text)});
    }
  }
  if (!plainest.empty()) {
    out.push_back(std::move(plainest));
  }
  return out;
}

// Of 16-bit samples.
std::vector<float> samples_of(std::string_view bytes) {
  std::vector<float> out(bytes.size() / sizeof(std::int16_t));
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int16_t sample = 0;
    std::memcpy(&sample, bytes.data() + i * sizeof(sample), sizeof(sample));
    out[i] = static_cast<float>(sample) / 32768.0F;
  }
  return out;
}

// Without what is silent at both ends, but for a breath: engines begin and end every text with some
// tenths of a second of it, which would stand around each sound.
std::span<const float> without_rests(std::span<const float> samples, int rate) {
  const auto is_heard = [](float sample) { return std::abs(sample) >= kUnspokenPeak; };
  const auto first = std::find_if(samples.begin(), samples.end(), is_heard);
  const auto last = std::find_if(samples.rbegin(), samples.rend(), is_heard).base();
  const std::ptrdiff_t breath = rate / 20;
  return first == samples.end() ? std::span<const float>()
                                : std::span(first - std::min(breath, first - samples.begin()),
                                            last + std::min(breath, samples.end() - last));
}

// The reverse of samples_of(), of what keeps within full scale.
std::string bytes_of(std::span<const float> samples) {
  std::string out;
  out.reserve(samples.size() * sizeof(std::int16_t));
  for (const float sample : samples) {
    const auto value = static_cast<std::int16_t>(std::lround(sample * 32767.0F));
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return out;
}

// Has `speech`, of which `words` are what is spoken, brought to the pitch, pace and loudness of a
// reference: what lies between both is declared as not yet done. Beyond these ranges speech turns
// into caricature.
void match(const SoundTraits& reference, std::span<const float> words, int rate, Audio& speech) {
  constexpr double kShiftMax = 12.0;        // semitones
  constexpr Range kLoudness{-30.0, -12.0};  // LUFS
  constexpr std::size_t kSecondsMeasured = 20;
  const std::size_t measured =
      std::min(words.size(), kSecondsMeasured * static_cast<std::size_t>(rate));
  const SoundTraits own = words.empty() ? SoundTraits{} : sound_traits(words.first(measured), rate);
  // What the request asks for on top stays on top.
  if (reference.pitch_hz && own.pitch_hz) {
    const double apart = 12.0 * std::log2(*reference.pitch_hz / *own.pitch_hz);
    speech.pitch_applied -= std::clamp(apart + speech.pitch_applied, -kShiftMax, kShiftMax);
  }
  if (reference.syllables_per_second && own.syllables_per_second) {
    const double apart = *reference.syllables_per_second / *own.syllables_per_second;
    speech.speed_applied /= std::clamp(apart * speech.speed_applied, kPace.low, kPace.high);
  }
  speech.target_lufs = std::clamp(reference.loudness_lufs, kLoudness.low, kLoudness.high);
}

bool too_short(const Speech& speech) {
  return speech.samples.size() / sizeof(std::int16_t) * 1000 <
         static_cast<std::size_t>(kDurationMinMilliseconds) * static_cast<std::size_t>(speech.rate);
}

ProviderFault unsupported(std::string why) {
  return {Fault::kUnsupportedInput, std::move(why), {}};
}

ProviderFault nothing_to_speak() {
  return unsupported("nothing to speak");
}

// Of letters that no voice reads: they would be spelled out by their numbers, and billed.
ProviderFault no_voice() {
  ProviderFault out = unsupported("no voice reads a script of the text");
  out.no_voice = true;
  return out;
}

// Sounds are made from it: of equal prompts the same ones.
std::uint64_t seed_of(std::string_view prompt) {
  std::uint64_t seed = 0;
  const Sha256 hash = sha256(prompt);
  std::memcpy(&seed, hash.data(), sizeof(seed));
  return seed;
}

ProviderFault fault_of(SpeechFault fault) {
  switch (fault) {
    case SpeechFault::kCanceled:
      return {Fault::kCanceled, "canceled", {}};
    case SpeechFault::kDeadline:
      return {Fault::kOutOfTime, "deadline", {}};
    case SpeechFault::kCrashed:
      return {Fault::kBrokenByInput, "the engine crashes on this text", {}};
    case SpeechFault::kVoiceMissing:
      return {Fault::kTryNext, "the engine lacks a voice", {}};
    case SpeechFault::kUnavailable:
      return {Fault::kRetrySame, "the speech helper does not run", std::chrono::seconds(1)};
  }
  return {Fault::kTryNext, "unknown", {}};
}

}  // namespace

LocalProvider::LocalProvider(LocalOptions options)
    : options_(std::move(options)),
      capabilities_(local_capabilities(options_.max_in_flight)),
      helper_(options_.helper_path),
      calls_(options_.threads, [this](const Call& call) { return make(call); }) {}

// One request, on its way to be spoken.
struct LocalProvider::Reading {
  const Call& call;
  const GenerationRequest& request;
  const LocalVoice& voice;
  // A second more than is delivered, rounded up, so that the pipeline sees that there was more.
  std::uint32_t seconds_max;
  std::chrono::steady_clock::time_point out_of_time;

  bool named() const { return speaker(request.voice).has_value(); }
  bool refers() const { return !request.audio_references.empty(); }
  // What there is to be read of `words`.
  std::string cleaned(std::string_view words) const {
    return clean_text(refers() ? strip_reference_marks(words) : words);
  }
  const SoundTraits& reference() const { return call.request.references->sounds.front().traits; }
};

struct LocalProvider::Spoken {
  Speech speech;
  double pitch = 0;  // semitones, of those asked for
};

Result<Audio, ProviderFault> LocalProvider::make(const Call& call) {
  const GenerationRequest& request = *call.request.request;
  if (request.image_url) {
    return unsupported("images are not supported");
  }
  const LocalVoice* const voice = find_local_voice(speaker(request.voice).value_or(kDefaultVoice));
  if (voice == nullptr) {
    return unsupported("unknown voice");
  }
  const Reading reading{
      .call = call,
      .request = request,
      .voice = *voice,
      .seconds_max = static_cast<std::uint32_t>((longest_ms(request.max_credits) + 999) / 1000 + 1),
      .out_of_time = std::chrono::steady_clock::now() + options_.time_max};
  return has_cues(request.prompt) ? play(reading, split_cues(request.prompt)) : narrate(reading);
}

Result<Audio, ProviderFault> LocalProvider::narrate(const Reading& reading) {
  const std::string cleaned = reading.cleaned(reading.request.prompt);
  if (!is_speakable(cleaned)) {
    return nothing_to_speak();
  }
  if (!has_voices(cleaned)) {
    return no_voice();
  }
  const std::vector<TextRun> runs =
      split_languages(drop_unread(cleaned), reading.voice.language, reading.named());
  Result<Spoken, ProviderFault> spoken =
      speak(reading, runs, reading.request.pitch, reading.seconds_max);
  if (!spoken) {
    return spoken.error();
  }
  if (too_short(spoken->speech)) {
    return nothing_to_speak();
  }
  Audio audio;
  audio.rate = spoken->speech.rate;
  audio.bytes = std::move(spoken->speech.samples);
  audio.speed_applied = reading.request.speed;
  audio.pitch_applied = spoken->pitch;
  audio.target_lufs = kSpokenLufs;
  if (reading.refers()) {
    match(reading.reference(), samples_of(audio.bytes), audio.rate, audio);
  }
  return audio;
}

// Speed and pitch are the voice's, and all that is left of them is done before sounds are added.
Result<Audio, ProviderFault> LocalProvider::play(const Reading& reading,
                                                 const std::vector<ScriptPart>& script) {
  const GenerationRequest& request = reading.request;
  std::vector<std::string> pieces;  // one for each part of words
  std::string text;
  for (const ScriptPart& part : script) {
    if (!part.cue) {
      pieces.push_back(reading.cleaned(part.words));
      text += pieces.back() + '\n';
    }
  }
  if (!has_voices(text)) {
    return no_voice();
  }
  for (std::string& piece : pieces) {
    piece = drop_unread(piece);
    // A full stop after a bracket is no word.
    if (!has_more_than_marks(piece)) {
      piece.clear();
    }
  }
  const std::vector<std::vector<TextRun>> runs =
      split_languages(pieces, reading.voice.language, reading.named());
  const bool flite = std::all_of(runs.begin(), runs.end(), [](const auto& piece) {
    return std::all_of(piece.begin(), piece.end(), text_for_flite);
  });
  const double pitch = flite ? request.pitch : 0.0;  // that all words can be given by their engine

  std::vector<StageItem> items;
  std::vector<double> pitches;  // that each was given
  std::vector<float> words;     // all of them
  const std::size_t most = std::size_t{reading.seconds_max} * kSoundRate;
  std::size_t before = 0;  // is heard before the next part, at the least
  const double fastest = reading.refers() ? kPace.high : 1.0;
  auto piece = runs.begin();
  for (const ScriptPart& part : script) {
    if (part.cue) {
      items.push_back({.cue = part.cue});
      pitches.push_back(pitch);
      before += sound_length(*part.cue);
      continue;
    }
    const std::vector<TextRun>& piece_runs = *piece++;
    // As they are heard, if the reference is as fast as it may be.
    const std::size_t seconds =
        static_cast<std::size_t>(static_cast<double>(words.size()) / fastest) / kSoundRate;
    if (piece_runs.empty() || seconds >= reading.seconds_max || before >= most) {
      continue;
    }
    Result<Spoken, ProviderFault> spoken = speak(
        reading, piece_runs, pitch, reading.seconds_max - static_cast<std::uint32_t>(seconds));
    if (!spoken) {
      return spoken.error();
    }
    Result<std::vector<float>> samples =
        resample(samples_of(spoken->speech.samples), spoken->speech.rate, kSoundRate);
    AG_CHECK(samples);  // fails for rates out of all bounds alone
    const std::span<const float> heard = without_rests(*samples, kSoundRate);
    before += static_cast<std::size_t>(static_cast<double>(heard.size()) / kPace.high);
    words.insert(words.end(), heard.begin(), heard.end());
    items.push_back({.words = {heard.begin(), heard.end()}});
    pitches.push_back(spoken->pitch);
  }

  Audio audio;
  audio.rate = kSoundRate;
  audio.speed_applied = request.speed;
  audio.pitch_applied = pitch;
  audio.target_lufs = kSpokenLufs;
  if (reading.refers()) {
    match(reading.reference(), words, kSoundRate, audio);
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    RenderSpec left = render_spec(request, audio);
    left.pitch_remaining += pitch - pitches[i];
    if (!items[i].words.empty() && needs_stretch(left)) {
      items[i].words = stretch(
          std::move(items[i].words), kSoundRate, left.speed_remaining, left.pitch_remaining);
    }
  }
  audio.speed_applied = request.speed;
  audio.pitch_applied = request.pitch;
  const std::vector<float> heard = perform(items, seed_of(request.prompt), most);
  const std::size_t delivered =
      static_cast<std::size_t>(longest_ms(request.max_credits)) * kSoundRate / 1000;
  if (is_silent(std::span(heard).first(std::min(heard.size(), delivered)))) {
    return unsupported("nothing to hear in what max_credits pays for");
  }
  audio.bytes = bytes_of(heard);
  return audio;
}

// Has `runs` spoken, `pitch` semitones from the voice's own where flite speaks alone. What is too
// short to be heard has its marks named.
Result<LocalProvider::Spoken, ProviderFault> LocalProvider::speak(const Reading& reading,
                                                                  const std::vector<TextRun>& runs,
                                                                  double pitch,
                                                                  std::uint32_t seconds_max) {
  const Call& call = reading.call;
  speech::Request speech;
  speech.words_per_minute = static_cast<std::uint32_t>(
      std::lround(speech::kWordsPerMinute * reading.voice.rate * reading.request.speed));
  // A reference may be faster: then as much more is spoken as match() has it sped up.
  speech.seconds_max = reading.refers()
                           ? static_cast<std::uint32_t>(std::ceil(seconds_max * kPace.high))
                           : seconds_max;
  const auto deadline = std::min(call.request.deadline, reading.out_of_time);
  for (std::vector<speech::Utterance>& utterances : attempts_for(runs, reading.voice)) {
    const double applied = set_pitch(utterances, reading.voice, pitch);
    speech.utterances = std::move(utterances);
    speech.speak_punctuation = 0;
    Result<Speech, SpeechFault> spoken = helper_.speak(speech, deadline, call.cancellation);
    if (spoken && too_short(*spoken)) {
      // A full stop alone: name it.
      speech.speak_punctuation = 1;
      spoken = helper_.speak(speech, deadline, call.cancellation);
    }
    if (!spoken && spoken.error() == SpeechFault::kCrashed) {
      continue;
    }
    if (!spoken && spoken.error() == SpeechFault::kDeadline && deadline == reading.out_of_time) {
      return ProviderFault{Fault::kBrokenByInput, "the engine takes too long on this text", {}};
    }
    if (!spoken) {
      // That its own time was over before a child had begun is not the helper's fault.
      const bool late = spoken.error() == SpeechFault::kUnavailable &&
                        std::chrono::steady_clock::now() >= call.request.deadline;
      return fault_of(late ? SpeechFault::kDeadline : spoken.error());
    }
    return Spoken{*std::move(spoken), applied};
  }
  return fault_of(SpeechFault::kCrashed);
}

}  // namespace audiogen
