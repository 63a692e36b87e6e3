#include "worker/local/local_provider.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/domain/voices.h"
#include "worker/audio/pipeline.h"
#include "worker/local/local_voices.h"
#include "worker/local/text.h"

namespace audiogen {
namespace {

constexpr std::size_t kSentenceMax = 400;  // bytes; longer ones crash the engine more often

Capabilities local_capabilities(int max_in_flight) {
  Capabilities out;
  for (const Voice& voice : voices()) {
    out.voices.emplace_back(voice.id);
  }
  out.audio_references = true;
  out.native_speed = kSpeedRange;
  out.max_in_flight = max_in_flight;
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

// flite speaks English, but for what only espeak-ng has names for: pictures and lone marks.
bool is_for_flite(const TextRun& run) {
  return (run.language == "en-us" || run.language == "en") && !run.emoji && has_words(run.text);
}

std::vector<speech::Utterance> utterances_of(const std::vector<TextRun>& runs,
                                             const LocalVoice& voice) {
  std::vector<speech::Utterance> out;
  out.reserve(runs.size());
  for (const TextRun& run : runs) {
    if (is_for_flite(run)) {
      out.push_back({.voice = std::string(voice.english.name),
                     .text = to_ascii(run.text),
                     .engine = speech::Engine::kFlite,
                     .breath_permille =
                         static_cast<std::uint32_t>(std::lround(voice.english.breath * 1000))});
    } else {
      out.push_back({.voice = voice_name(run.language, voice),
                     .text = run.text,
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
std::vector<std::vector<speech::Utterance>> attempts_for(const std::string& text,
                                                         const LocalVoice& voice) {
  const std::vector<TextRun> runs = split_languages(text, voice.language);
  std::vector<TextRun> plain;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(plain), [](const TextRun& run) {
    return !run.emoji && is_speakable(run.text);
  });
  const std::vector<TextRun> sentences =
      split_sentences(plain.empty() ? runs : plain, kSentenceMax);
  std::vector<speech::Utterance> plainest;
  for (const TextRun& run : sentences) {
    plainest.push_back({.voice = voice_name("en-us", voice), .text = run.text});
  }
  return {utterances_of(runs, voice), utterances_of(sentences, voice), std::move(plainest)};
}

std::vector<float> samples_of(const Audio& audio, std::size_t seconds_max) {
  std::vector<float> out(std::min(audio.bytes.size() / sizeof(std::int16_t),
                                  seconds_max * static_cast<std::size_t>(audio.rate)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int16_t sample = 0;
    std::memcpy(&sample, audio.bytes.data() + i * sizeof(sample), sizeof(sample));
    out[i] = static_cast<float>(sample) / 32768.0F;
  }
  return out;
}

// Has the pipeline bring the speech to the pitch, pace and loudness of a reference: what lies
// between both is declared as not yet done. Beyond these ranges speech turns into caricature.
void match(const SoundTraits& reference, Audio& speech) {
  constexpr double kShiftMax = 12.0;  // semitones
  constexpr Range kPace{0.75, 1.35};
  constexpr Range kLoudness{-30.0, -12.0};  // LUFS
  constexpr std::size_t kSecondsMeasured = 20;
  const SoundTraits own = sound_traits(samples_of(speech, kSecondsMeasured), speech.rate);
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

struct LocalProvider::Call : ProviderCall {
  Call(ProviderRequest r, Done d) : request(std::move(r)), done(std::move(d)) {}
  void cancel() override { cancellation.cancel(); }

  const ProviderRequest request;
  const Done done;
  Cancellation cancellation;
};

LocalProvider::LocalProvider(LocalOptions options)
    : options_(std::move(options)),
      capabilities_(local_capabilities(options_.max_in_flight)),
      helper_(options_.helper_path) {
  for (int i = 0; i < std::max(1, options_.threads); ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

LocalProvider::~LocalProvider() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (const auto& call : waiting_) {
      call->cancel();
    }
    for (const auto& call : running_) {
      call->cancel();
    }
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

std::shared_ptr<ProviderCall> LocalProvider::start(ProviderRequest request, Done done) {
  auto call = std::make_shared<Call>(std::move(request), std::move(done));
  {
    const MutexLock lock(mutex_);
    AG_CHECK(!stopping_);
    waiting_.push_back(call);
  }
  changed_.notify_one();
  return call;
}

void LocalProvider::work() {
  for (;;) {
    std::shared_ptr<Call> call;
    {
      MutexLock lock(mutex_);
      changed_.wait(lock,
                    [this]() LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) {
        return;
      }
      call = std::move(waiting_.front());
      waiting_.pop_front();
      running_.push_back(call);
    }
    if (call->request.facts) {
      call->request.facts->sent = CallFacts::Clock::now();
    }
    Result<Audio, ProviderFault> result = speak(*call);
    {
      const MutexLock lock(mutex_);
      std::erase(running_, call);
    }
    call->done(std::move(result));
  }
}

Result<Audio, ProviderFault> LocalProvider::speak(const Call& call) {
  const GenerationRequest& request = *call.request.request;
  if (request.image_url) {
    return ProviderFault{Fault::kUnsupportedInput, "images are not supported", {}};
  }
  const LocalVoice* const voice =
      find_local_voice(request.voice.value_or(std::string(kDefaultVoice)));
  if (voice == nullptr) {
    return ProviderFault{Fault::kUnsupportedInput, "unknown voice", {}};
  }
  const bool refers = !request.audio_references.empty();
  const std::string cleaned =
      clean_text(refers ? strip_reference_marks(request.prompt) : request.prompt);
  if (!is_speakable(cleaned)) {
    return ProviderFault{Fault::kUnsupportedInput, "nothing to speak", {}};
  }

  if (!has_voices(cleaned)) {
    // Its letters would be spelled out by their numbers, and billed.
    return ProviderFault{Fault::kUnsupportedInput, "no voice reads a script of the text", {}};
  }
  const std::string text = drop_unread(cleaned);

  speech::Request speech;
  speech.words_per_minute = static_cast<std::uint32_t>(
      std::lround(speech::kWordsPerMinute * voice->rate * request.speed));
  // A second more than is delivered, rounded up, so that the pipeline sees that there was more.
  speech.seconds_max =
      static_cast<std::uint32_t>((longest_ms(request.max_credits) + 999) / 1000 + 1);

  const auto out_of_time = std::chrono::steady_clock::now() + options_.time_max;
  const auto deadline = std::min(call.request.deadline, out_of_time);
  for (std::vector<speech::Utterance>& utterances : attempts_for(text, *voice)) {
    const double pitch = set_pitch(utterances, *voice, request.pitch);
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
    if (!spoken && spoken.error() == SpeechFault::kDeadline && deadline == out_of_time) {
      return ProviderFault{Fault::kBrokenByInput, "the engine takes too long on this text", {}};
    }
    if (!spoken) {
      return fault_of(spoken.error());
    }
    if (too_short(*spoken)) {
      return ProviderFault{Fault::kUnsupportedInput, "nothing to speak", {}};
    }
    Audio audio;
    audio.rate = spoken->rate;
    audio.bytes = std::move(spoken->samples);
    audio.speed_applied = request.speed;
    audio.pitch_applied = pitch;
    audio.target_lufs = kSpokenLufs;
    if (refers) {
      match(call.request.references->sounds.front().traits, audio);
    }
    return audio;
  }
  return fault_of(SpeechFault::kCrashed);
}

}  // namespace audiogen
