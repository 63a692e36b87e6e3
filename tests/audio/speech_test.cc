// The local provider through the real helper program: voices, hostile text, repeatability, deaths.
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <span>
#include <thread>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/domain/cues.h"
#include "common/domain/estimate.h"
#include "common/domain/voices.h"
#include "worker/audio/in_process_decoder.h"
#include "worker/audio/levels.h"
#include "worker/audio/pipeline.h"
#include "worker/audio/reference.h"
#include "worker/local/language.h"
#include "worker/local/local_provider.h"
#include "worker/local/local_voices.h"
#include "worker/local/sounds.h"
#include "worker/local/speech_reader.h"

namespace audiogen {
namespace {

using std::chrono::seconds;
using Answer = Result<Audio, ProviderFault>;

// One call and its answer.
class Pending {
 public:
  Pending(AudioProvider& provider,
          GenerationRequest request,
          seconds time = seconds(600),
          std::shared_ptr<const References> references = nullptr) {
    call_ =
        provider.start({.request = std::make_shared<const GenerationRequest>(std::move(request)),
                        .request_key = "key",
                        .deadline = std::chrono::steady_clock::now() + time,
                        .references = std::move(references)},
                       [state = state_](Answer answer) {
                         const std::lock_guard lock(state->mutex);
                         ++state->answers;
                         state->answer = std::make_unique<Answer>(std::move(answer));
                         state->changed.notify_all();
                       });
  }
  Answer& wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->answer != nullptr; });
    EXPECT_EQ(state_->answers, 1);
    return *state_->answer;
  }
  void cancel() { call_->cancel(); }
  bool answered() {
    const std::lock_guard lock(state_->mutex);
    return state_->answer != nullptr;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int answers = 0;
    std::unique_ptr<Answer> answer;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::shared_ptr<ProviderCall> call_;
};

GenerationRequest prompt(std::string text, std::optional<std::string> voice = {}) {
  GenerationRequest request;
  request.prompt = std::move(text);
  request.voice = std::move(voice);
  return request;
}

std::string repeat(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

auto shape(const Audio& audio, const RenderSpec& spec) {
  InProcessDecoder decoder;
  return render(Audio(audio), spec, decoder);
}

double seconds_of(const Audio& audio) {
  return static_cast<double>(audio.bytes.size()) / 2 / audio.rate;
}

// Of 16-bit samples.
std::vector<float> samples_of(std::string_view bytes) {
  std::vector<float> out(bytes.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int16_t sample = 0;
    std::memcpy(&sample, bytes.data() + 2 * i, 2);
    out[i] = static_cast<float>(sample) / 32768.0F;
  }
  return out;
}

Fault fault_of(const Answer& answer) {
  EXPECT_FALSE(answer);
  return answer ? Fault::kUnknownOutcome : answer.error().fault;
}

class Local : public testing::Test {
 protected:
  Answer say(const GenerationRequest& request) { return Pending(provider_, request).wait(); }
  double length(const GenerationRequest& request) {
    const Answer answer = say(request);
    EXPECT_TRUE(answer) << (answer ? "" : answer.error().detail);
    return answer ? seconds_of(*answer) : 0;
  }

  LocalProvider provider_{LocalOptions{.threads = 2}};
};

TEST_F(Local, EveryVoiceSpeaks) {
  const std::map<std::string_view, std::string> own_script = {
      {"mei", "你好，世界。今天天气很好。"},
      {"yuki", "こんにちは。東京へ行きます。"},
      {"omar", "مرحبا بالعالم"},
      {"anya", "Привет, мир. Как дела?"}};
  std::vector<std::string> heard;
  for (const std::string& id : provider_.capabilities().voices) {
    ASSERT_NE(find_local_voice(id), nullptr) << id;
    const auto script = own_script.find(id);
    const std::string text =
        script == own_script.end() ? "Hello world, how are you?" : script->second;
    const Answer answer = say(prompt(text, id));
    ASSERT_TRUE(answer) << id << ": " << answer.error().detail;
    EXPECT_GT(seconds_of(*answer), 0.8) << id;
    EXPECT_LT(seconds_of(*answer), 10) << id;
    EXPECT_TRUE(shape(*answer, RenderSpec{})) << id;
    heard.push_back(answer->bytes);
  }
  std::sort(heard.begin(), heard.end());
  EXPECT_EQ(std::unique(heard.begin(), heard.end()), heard.end()) << "two voices sound the same";
  EXPECT_EQ(find_local_voice("nobody"), nullptr);
  EXPECT_EQ(heard.size(), voices().size() - 1) << "all but the one that is nobody's";
  // Whom nobody can serve better, the default voice reads it to.
  const Answer scene = say(prompt("Hello world, how are you?", std::string(kSceneVoice)));
  ASSERT_TRUE(scene) << scene.error().detail;
  EXPECT_EQ(scene->bytes, say(prompt("Hello world, how are you?"))->bytes);
}

// What the estimate expects is what comes, within its range.
TEST_F(Local, EstimatesHold) {
  for (const auto& [voice, text] : std::vector<std::pair<std::string, std::string>>{
           {"aria", "Good morning. The train to the coast leaves in ten minutes."},
           {"atlas",
            "It was a bright cold day in April, and the clocks were striking thirteen. Winston "
            "Smith, his chin nuzzled into his breast in an effort to escape the vile wind, slipped "
            "quickly through the glass doors of Victory Mansions."},
           {"sage", "One two three four five six seven eight nine ten."},
           {"lena", "Guten Morgen. Der Zug zur Küste fährt in zehn Minuten ab."},
           {"chloe", "Bonjour. Le train pour la côte part dans dix minutes."},
           {"lucia", "Buenos días. El tren a la costa sale en diez minutos."},
           {"anya", "Доброе утро. Поезд на побережье отправляется через десять минут."},
           {"omar", "صباح الخير. يغادر القطار إلى الساحل بعد عشر دقائق."},
           {"mei", "早上好。去海边的火车十分钟后开。今天天气很好，我们去散步吧。"},
           {"yuki", "おはようございます。うみへいくでんしゃはじゅっぷんごにでます。"}}) {
    GenerationRequest request = prompt(text, voice);
    for (const double speed : {0.7, 1.0, 1.6}) {
      request.speed = speed;
      const Estimate expected = estimate(request);
      const double spoken = length(request) * 1000;
      EXPECT_GT(spoken, static_cast<double>(expected.short_ms)) << voice << " " << speed;
      EXPECT_LT(spoken, static_cast<double>(expected.long_ms)) << voice << " " << speed;
    }
  }
}

TEST_F(Local, EveryScriptSpeaks) {
  for (const char* text : {"안녕하세요",
                           "مرحبا",
                           "שלום",
                           "नमस्ते",
                           "สวัสดี",
                           "γεια σου",
                           "Hello 世界 привет",
                           "বাংলা",
                           "ਪੰਜਾਬੀ",
                           "ગુજરાતી",
                           "தமிழ்",
                           "తెలుగు",
                           "ಕನ್ನಡ",
                           "മലയാളം",
                           "ქართული",
                           "አማርኛ",
                           "ଓଡ଼ିଆ",
                           "😀",
                           "👩\u200D👩\u200D👧",
                           "１２３",
                           "𝓗𝓮𝓵𝓵𝓸"}) {
    EXPECT_GT(length(prompt(text)), 0.2) << text;
  }
  // Kanji are read, not named "Chinese letter": both spellings sound alike.
  EXPECT_NEAR(length(prompt("東京へ行きます")), length(prompt("とうきょうへいきます")), 0.3);
  // kakasi loses these stems, unless it is asked for them apart.
  EXPECT_NEAR(length(prompt("行った")), length(prompt("いった")), 0.05);
  EXPECT_NEAR(length(prompt("昨日買った本を読んで、家に帰って寝た")),
              length(prompt("きのうかったほんをよんで、いえにかえってねた")),
              0.5);
  EXPECT_NEAR(length(prompt("入っちゃう")), length(prompt("いっちゃう")), 0.05);
  EXPECT_NEAR(length(prompt("引っ張って")), length(prompt("ひっぱって")), 0.05);
  EXPECT_NEAR(length(prompt("真っ赤")), length(prompt("まっか")), 0.05);
  EXPECT_GT(length(prompt("בשנת 2024 נולדתי")), length(prompt("בשנת נולדתי")) + 0.5);
}

TEST_F(Local, UnspeakableTextIsATypedFault) {
  for (const char* text : {" ", "\n\n\n", "\u200B", "。", "\x01", "\u202E", "\u3000"}) {
    EXPECT_EQ(fault_of(say(prompt(text))), Fault::kUnsupportedInput);
  }
  EXPECT_EQ(fault_of(say(prompt("hi", "nobody"))), Fault::kUnsupportedInput);
  GenerationRequest image = prompt("hi");
  image.image_url = "https://example.com/a.png";
  EXPECT_EQ(fault_of(say(image)), Fault::kUnsupportedInput);
  // A lone sentence mark has a name.
  for (const char* text : {".", "?", "…", "!!! ??? ... ---"}) {
    EXPECT_GT(length(prompt(text)), 0.2) << text;
  }
}

// A sentence of one word, at the end of a text or before a cue.
TEST_F(Local, TheLastWordIsSpoken) {
  const double late = length(prompt("It was late."));
  EXPECT_GT(length(prompt("It was late. Goodbye.")), late + 0.3);
  EXPECT_GT(length(prompt("It was late. Goodbye")), late + 0.3);
  EXPECT_GT(length(prompt("Your one-time code is: 482913")),
            length(prompt("Your one-time code is:")) + 1);
  EXPECT_GT(length(prompt("It was late. Goodbye.[bell]")),
            length(prompt("It was late.[bell]")) + 0.3);
}

// By flite where ASCII has something for it, else by espeak-ng: left out it would be noise alone,
// brought to the loudness of speech.
TEST_F(Local, NothingOfEnglishIsLeftOut) {
  EXPECT_GT(length(prompt("₹500")), length(prompt("500")) + 0.3);
  for (const char* text : {"ŋ", "ə", "ʼ", "ʃ", "ↀ"}) {
    const Answer answer = say(prompt(text));
    ASSERT_TRUE(answer) << text << ": " << answer.error().detail;
    EXPECT_GT(peak_of(samples_of(answer->bytes)), 0.1) << text;
  }
  const Answer known = say(prompt("It is called Ŋgoma."));
  ASSERT_TRUE(known);
  EXPECT_EQ(known->rate, 16000) << "by flite";
  const Answer named = say(prompt("It is written ʃoma."));
  ASSERT_TRUE(named);
  EXPECT_EQ(named->rate, 22050) << "by espeak-ng";
}

TEST_F(Local, ScriptsWithoutAVoiceAreRefused) {
  for (const char* text : {"བོད་ཡིག", "ភាសាខ្មែរ", "Hello, བོད"}) {
    const auto answer = say(prompt(text));
    EXPECT_EQ(fault_of(answer), Fault::kUnsupportedInput) << text;
    EXPECT_TRUE(!answer && answer.error().no_voice) << text << ": the client is told";
  }
  const auto nothing = say(prompt(" "));
  EXPECT_TRUE(!nothing && !nothing.error().no_voice);
}

TEST_F(Local, DecorationIsNotSpoken) {
  EXPECT_EQ(length(prompt("We have won the cup \u1555( \u141B )\u1557")),
            length(prompt("We have won the cup  (   ) ")));
}

TEST_F(Local, EveryLanguageHasAVoice) {
  SpeechHelper helper(SpeechHelper::default_path());
  const Cancellation never;
  for (const SharedScript& language : shared_scripts()) {
    speech::Request request;
    request.seconds_max = 10;
    request.utterances = {{.voice = std::string(language.voice) + "+f3", .text = "1 2 3"}};
    EXPECT_TRUE(helper.speak(request, std::chrono::steady_clock::now() + seconds(600), never))
        << language.voice;
  }
}

TEST_F(Local, MarkupIsSpoken) {
  const std::filesystem::path trap =
      std::filesystem::temp_directory_path() / ("trap" + std::to_string(getpid()));
  const std::string file = (trap / "x$(touch pwned).wav").string();
  std::filesystem::create_directory(trap);
  std::ofstream(file) << "RIFF";
  struct stat before {};
  ASSERT_EQ(stat(file.c_str(), &before), 0);
  const double tags =
      length(prompt("<speak><audio src=\"" + file + "\">alternative</audio></speak>"));
  EXPECT_GT(tags, length(prompt("alternative")) + 3);
  EXPECT_FALSE(std::filesystem::exists(trap / "pwned"));
  EXPECT_FALSE(std::filesystem::exists("pwned"));
  EXPECT_GT(length(prompt("[[h@'loU]]")), 0.7);
  // In-band commands of the engine: 0x01 "450S" would quadruple the rate.
  EXPECT_GT(length(prompt("\x01"
                          "450S one two three four five")),
            length(prompt("one two three four five")));
  std::filesystem::remove_all(trap);
}

TEST_F(Local, HostileTextHarmsNobodyElse) {
  const Answer reference = say(prompt("The quick brown fox jumps over the lazy dog."));
  ASSERT_TRUE(reference);
  const std::vector<GenerationRequest> hostile = {
      prompt(repeat("s'", 220)),
      prompt(repeat("s\u2019", 220), "albion"),
      prompt(repeat("😀", 2048)),
      prompt(repeat("😀", 2048), "yuki"),
      prompt(repeat("नम😀स्ते", 200)),
      prompt(repeat("あ😀漢", 600), "yuki"),
      prompt(std::string(2048, '9')),
      prompt(std::string(2048, 'a')),
      prompt(repeat("\u0335", 2048)),
      prompt(repeat("\uFDFA", 2048)),
      prompt(repeat("aя", 1024)),
      prompt(repeat("你好", 1024), "mei"),
  };
  std::vector<std::unique_ptr<Pending>> calls;
  std::vector<std::unique_ptr<Pending>> innocent;
  for (const GenerationRequest& request : hostile) {
    calls.push_back(std::make_unique<Pending>(provider_, request));
    innocent.push_back(std::make_unique<Pending>(
        provider_, prompt("The quick brown fox jumps over the lazy dog.")));
  }
  for (const auto& call : innocent) {
    const Answer& answer = call->wait();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->bytes, reference->bytes);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Answer& answer = calls[i]->wait();
    if (answer) {
      EXPECT_GT(seconds_of(*answer), 0.1);
      EXPECT_LE(seconds_of(*answer), 121.01);  // runs are rounded to whole samples
    } else {
      EXPECT_TRUE(answer.error().fault == Fault::kBrokenByInput ||
                  answer.error().fault == Fault::kUnsupportedInput)
          << i << answer.error().detail;
    }
  }
}

TEST_F(Local, ACrashStaysWithItsRequest) {
  SpeechHelper helper(SpeechHelper::default_path());
  const Cancellation never;
  const auto speak = [&](std::string voice, std::string text) {
    speech::Request request;
    request.seconds_max = 121;
    request.utterances = {{std::move(voice), std::move(text), false}};
    return helper.speak(request, std::chrono::steady_clock::now() + seconds(600), never);
  };
  ASSERT_TRUE(speak("en-us", "Hello"));
  const std::optional<pid_t> before = helper.process();
  // Overflows a buffer of espeak-ng 1.51 unless clean_text() breaks it up.
  const Result<Speech, SpeechFault> overflow = speak("en-us", repeat("s'", 220));
  // Overflows another, even cleaned.
  const std::string burmese = "း၉ဉၘ႖,က-ၢႋျ ၂ဥ၉ဦျၛ,စၱ ဲြၷ၅၍ၺၩၳႇျႀတႉၦဌဳႜ ၖႂႚၹၲ႗ဋၴၿဍ";
  const Result<Speech, SpeechFault> cleaned = speak("my+f3", burmese);
  EXPECT_TRUE(speak("en-us", "Hello"));
  EXPECT_EQ(helper.process(), before);
  EXPECT_EQ(speak("no-such-voice", "Hello").error(), SpeechFault::kVoiceMissing);
  if (overflow || cleaned) {
    GTEST_SKIP() << "this espeak-ng survives what crashed 1.51";
  }
  EXPECT_EQ(overflow.error(), SpeechFault::kCrashed);
  EXPECT_EQ(cleaned.error(), SpeechFault::kCrashed);
  // An English voice would say the names of its letters, to be billed for them.
  const Answer not_said = say(prompt(burmese));
  ASSERT_FALSE(not_said);
  EXPECT_EQ(not_said.error().fault, Fault::kBrokenByInput);
}

TEST_F(Local, EqualRequestsSoundEqual) {
  const GenerationRequest request = prompt("The price is 42 euros, not 43. 東京へ行きます 😀");
  const Answer first = say(request);
  ASSERT_TRUE(first);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(say(prompt("Something else in between")));
    const Answer again = say(request);
    ASSERT_TRUE(again);
    EXPECT_EQ(shape(*again, render_spec(request, *again))->checksum,
              shape(*first, render_spec(request, *first))->checksum);
  }
  LocalProvider other;
  const Answer elsewhere = Pending(other, request).wait();
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(elsewhere->bytes, first->bytes);
}

TEST_F(Local, SpeedPitchAndVolumeReachTheirEnds) {
  const std::string text = "One two three four five six seven eight nine ten.";
  const double normal = length(prompt(text));
  GenerationRequest request = prompt(text);
  request.speed = 0.5;
  EXPECT_NEAR(length(request) / normal, 2.0, 0.1);
  request.speed = 2.0;
  EXPECT_NEAR(length(request) / normal, 0.5, 0.05);
  for (const Voice& voice : voices()) {
    if (voice.id == kSceneVoice) {
      continue;  // Says nothing: what it is shown by are sounds.
    }
    for (const double pitch : {-12.0, 0.0, 12.0}) {
      request = prompt(std::string(voice.sample), std::string(voice.id));
      request.pitch = pitch;
      request.volume = 2.0;
      const Answer answer = say(request);
      ASSERT_TRUE(answer);
      const RenderSpec spec = render_spec(request, *answer);
      // flite reaches every pitch by itself; of espeak-ng none is asked.
      const bool flite = voice.language.starts_with("en");
      EXPECT_EQ(spec.pitch_remaining, flite ? 0.0 : pitch) << voice.id;
      EXPECT_DOUBLE_EQ(spec.speed_remaining, 1.0);
      EXPECT_TRUE(shape(*answer, spec));
    }
  }
}

// The words of a prompt with cues are those without them, and the sounds come on top.
TEST_F(Local, CuesAreSounds) {
  const double words =
      length(prompt("The guest has come. The gate is open. Now it begins to rain."));
  const double cues = length(prompt(
      "The guest has come. [knock] The gate is open. (DOOR) [ rain ] Now it begins to rain."));
  const auto seconds_long = [](Cue cue) {
    return static_cast<double>(sound_length(cue)) / kSoundRate;
  };
  // Two pauses around each sound, and an ambience before and after the words under which it lies.
  EXPECT_NEAR(
      cues, words + seconds_long(Cue::kKnock) + seconds_long(Cue::kDoor) + 4 * 0.15 + 2 * 1.2, 1);
  // A full stop after a cue is not read out, and what is no cue still is.
  EXPECT_EQ(length(prompt("It rang. [bell].")), length(prompt("It rang. [bell]")));
  EXPECT_GT(length(prompt("It rang. [bells].")), length(prompt("It rang.")) + 0.2);
}

TEST_F(Local, CuesAloneAreHeard) {
  for (const CueName& known : cue_names()) {
    const std::string text = '[' + std::string(known.name) + ']';
    const Answer answer = say(prompt(text));
    if (known.cue == Cue::kSilence) {
      EXPECT_EQ(fault_of(answer), Fault::kUnsupportedInput);
      continue;
    }
    ASSERT_TRUE(answer) << text << ": " << answer.error().detail;
    EXPECT_GE(seconds_of(*answer), 1) << text;
    EXPECT_TRUE(shape(*answer, RenderSpec{})) << text;
  }
  EXPECT_TRUE(say(prompt("(door) ... [rain]!", "yuki")));
  EXPECT_EQ(fault_of(say(prompt("[rain] བོད་ཡིག"))), Fault::kUnsupportedInput);
  // The words come after all that is paid for.
  GenerationRequest late =
      prompt("[silence][silence][silence][silence][silence][silence][silence][silence] Hello");
  late.max_credits = credits(10);
  EXPECT_EQ(fault_of(say(late)), Fault::kUnsupportedInput);
  late.max_credits = credits(12);
  EXPECT_TRUE(say(late));
}

// What held no cue before is spoken as ever: brackets, words, and names that do not stand alone.
TEST_F(Local, ProseIsNoCue) {
  for (const char* text : {"It may rain (see [1]), a bell rang.",
                           "[heavy rain] She knocked (twice).",
                           "[[rain]] and [thunder"}) {
    const Answer answer = say(prompt(text));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->rate, 16000) << text << ": flite's own samples";
  }
}

TEST_F(Local, CuesKeepTheVoicesSpeedAndPitch) {
  // The sound keeps its length and pitch; words change both, whichever engine speaks them.
  const std::string text = "[knock] One two three four five six seven eight nine ten.";
  const double sound = length(prompt("[knock]"));
  const double normal = length(prompt(text)) - sound;
  GenerationRequest request = prompt(text);
  request.speed = 0.5;
  EXPECT_NEAR((length(request) - sound) / normal, 2.0, 0.1);
  request.speed = 2.0;
  EXPECT_NEAR((length(request) - sound) / normal, 0.5, 0.05);
  for (const char* voice : {"aria", "anya"}) {
    request = prompt(voice == std::string("aria") ? "[knock] One two three four five six."
                                                  : "[knock] Раз два три четыре пять шесть.",
                     voice);
    const auto heard = [&](double pitch) {
      request.pitch = pitch;
      const Answer answer = say(request);
      EXPECT_TRUE(answer);
      const RenderSpec spec = render_spec(request, *answer);
      EXPECT_EQ(spec.pitch_remaining, 0) << "or sounds were shifted, too";
      EXPECT_EQ(spec.speed_remaining, 1);
      return samples_of(answer->bytes);
    };
    const std::vector<float> low = heard(-5), high = heard(7);
    const std::size_t knock = sound_length(Cue::kKnock) + 3 * kSoundRate / 10;
    const auto pitch_of = [&](std::span<const float> samples) {
      return sound_traits(samples, kSoundRate).pitch_hz.value_or(1);
    };
    EXPECT_NEAR(12 * std::log2(pitch_of(std::span(high).subspan(knock)) /
                               pitch_of(std::span(low).subspan(knock))),
                12,
                1)
        << voice;
    // The same sound, but for the gain of the whole.
    const auto correlation = [&] {
      double product = 0, of_low = 0, of_high = 0;
      for (std::size_t i = 0; i < knock; ++i) {
        product += static_cast<double>(low[i]) * static_cast<double>(high[i]);
        of_low += static_cast<double>(low[i]) * static_cast<double>(low[i]);
        of_high += static_cast<double>(high[i]) * static_cast<double>(high[i]);
      }
      return product / std::sqrt(of_low * of_high);
    };
    EXPECT_GT(correlation(), 0.99) << voice;
  }
}

// A reference says how to speak, not how a door sounds.
TEST_F(Local, CuesLeaveReferencesToTheVoice) {
  References references;
  references.sounds.resize(1);
  references.sounds[0].traits.pitch_hz = 120;
  references.sounds[0].traits.loudness_lufs = -23;
  const auto shared = std::make_shared<const References>(std::move(references));
  for (const bool words : {true, false}) {
    GenerationRequest request =
        prompt(words ? "[knock] One two three four five six, like @Audio1." : "[knock] @Audio1");
    request.audio_references = {"https://example.com/a.wav"};
    const Answer answer = Pending(provider_, request, seconds(600), shared).wait();
    ASSERT_TRUE(answer) << answer.error().detail;
    EXPECT_EQ(answer->target_lufs, -23);
    EXPECT_FALSE(needs_stretch(render_spec(request, *answer)));
    const std::vector<float> heard = samples_of(answer->bytes);
    const std::size_t knock = sound_length(Cue::kKnock) + 3 * kSoundRate / 10;
    ASSERT_EQ(heard.size() > knock, words) << "a mark is not read out";
    if (words) {
      const double pitch =
          sound_traits(std::span(heard).subspan(knock), kSoundRate).pitch_hz.value_or(1);
      EXPECT_NEAR(12 * std::log2(pitch / 120), 0, 1);
    }
  }
}

TEST_F(Local, WhatHasCuesIsAsLoudAsSpeech) {
  for (const char* text :
       {"It was late. [rain] Somebody came. (Door) [footsteps] Good evening.",
        "[thunder] [wind] Run!",
        "[clock] It is a quarter to nine. [bell] [bell] [bell] [silence] Nine."}) {
    GenerationRequest request = prompt(text);
    request.output_format = OutputFormat::kWav;
    const Answer answer = say(request);
    ASSERT_TRUE(answer);
    const auto rendered = shape(*answer, render_spec(request, *answer));
    ASSERT_TRUE(rendered);
    constexpr std::size_t kHeader = 44;
    const auto loudness = measure_loudness(
        samples_of(std::string_view(rendered->bytes).substr(kHeader)), request.sample_rate);
    ASSERT_TRUE(loudness);
    EXPECT_NEAR(loudness->lufs, kSpokenLufs, 0.5) << text;
    EXPECT_LT(loudness->true_peak, 0.8915) << text;  // -1 dBFS
    EXPECT_NEAR(
        static_cast<double>(rendered->samples) / rendered->rate, seconds_of(*answer), 0.001);
  }
}

TEST_F(Local, EqualCuesSoundEqual) {
  const GenerationRequest request = prompt("[wind] It was late. [bell] Привет [bell]");
  const Answer first = say(request), again = say(request);
  ASSERT_TRUE(first && again);
  EXPECT_EQ(first->bytes, again->bytes);
}

// However many there are, they are cut like long speech, and what the client will not pay for is
// not made.
TEST_F(Local, ManyCuesAreBounded) {
  GenerationRequest request = prompt(repeat("a [bell]", 80) + repeat("[rain](wind)", 90));
  request.output_format = OutputFormat::kWav;
  const Answer answer = say(request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(seconds_of(*answer), 121);
  const auto rendered = shape(*answer, render_spec(request, *answer));
  ASSERT_TRUE(rendered);
  EXPECT_EQ(rendered->samples, 120U * 24000);
  EXPECT_TRUE(rendered->truncated);
  request.max_credits = kChargeMin;
  const Answer least = say(request);
  ASSERT_TRUE(least);
  EXPECT_EQ(seconds_of(*least), 9);
  EXPECT_NEAR(length(prompt(repeat("[rain]", 341))), 5, 0.01);
}

TEST_F(Local, LongSpeechStopsAtTheCap) {
  GenerationRequest request = prompt(repeat("wonderful ", 204));
  request.speed = 0.5;
  request.output_format = OutputFormat::kWav;
  const Answer answer = say(request);
  ASSERT_TRUE(answer);
  EXPECT_NEAR(seconds_of(*answer), 121, 0.01);
  const auto rendered = shape(*answer, render_spec(request, *answer));
  ASSERT_TRUE(rendered);
  EXPECT_EQ(rendered->samples, 120U * 24000);
  EXPECT_TRUE(rendered->truncated);
}

TEST_F(Local, CancelEndsACallOnce) {
  std::vector<std::unique_ptr<Pending>> calls;
  for (int i = 0; i < 20; ++i) {
    calls.push_back(std::make_unique<Pending>(provider_, prompt(repeat("wonderful ", 204))));
  }
  for (const auto& call : calls) {
    call->cancel();
    call->cancel();
  }
  for (const auto& call : calls) {
    const Answer& answer = call->wait();
    EXPECT_TRUE(answer || answer.error().fault == Fault::kCanceled);
  }
  EXPECT_EQ(fault_of(calls.back()->wait()), Fault::kCanceled);
  EXPECT_EQ(fault_of(Pending(provider_, prompt("hi"), seconds(0)).wait()), Fault::kOutOfTime);
  EXPECT_TRUE(say(prompt("still here")));
}

TEST(LocalProvider, DestructionCancelsOpenCalls) {
  std::vector<std::unique_ptr<Pending>> calls;
  {
    LocalProvider provider(LocalOptions{.threads = 1});
    for (int i = 0; i < 10; ++i) {
      calls.push_back(std::make_unique<Pending>(provider, prompt(repeat("wonderful ", 204))));
    }
  }
  for (const auto& call : calls) {
    EXPECT_TRUE(call->answered());
  }
}

TEST_F(Local, AKilledHelperIsReplaced) {
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(say(prompt("Hello")));
    const std::optional<pid_t> before = provider_.helper().process();
    ASSERT_TRUE(before);
    Pending one(provider_, prompt(repeat("wonderful ", 204)));
    Pending two(provider_, prompt(repeat("marvellous ", 180)));
    kill(*before, SIGKILL);
    EXPECT_TRUE(one.wait());
    EXPECT_TRUE(two.wait());
    EXPECT_TRUE(say(prompt("Hello")));  // Both may have ended before the helper did.
    EXPECT_NE(provider_.helper().process(), before);
  }
}

TEST_F(Local, TheHelperOutlivesTheGroupsSignals) {
  ASSERT_TRUE(say(prompt("Hello")));
  const std::optional<pid_t> before = provider_.helper().process();
  ASSERT_TRUE(before);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    kill(*before, signal);
  }
  EXPECT_TRUE(say(prompt("Hello again")));
  EXPECT_EQ(provider_.helper().process(), before);
}

TEST(SpeechHelper, EndsWhenTheWorkerDies) {
  // This process becomes the parent of what its child leaves behind, so that it can wait for it.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t worker = fork();
  if (worker == 0) {
    LocalProvider provider;
    Pending(provider, prompt("Hello")).wait();
    const pid_t helper = provider.helper().process().value_or(0);
    Pending busy(provider, prompt(repeat("wonderful ", 204)));
    [[maybe_unused]] const ssize_t size = write(pipe_ends[1], &helper, sizeof(helper));
    raise(SIGKILL);
  }
  pid_t helper = 0;
  ASSERT_EQ(read(pipe_ends[0], &helper, sizeof(helper)), static_cast<ssize_t>(sizeof(helper)));
  ASSERT_GT(helper, 0);
  ASSERT_EQ(waitpid(worker, nullptr, 0), worker);
  ASSERT_EQ(waitpid(helper, nullptr, 0), helper);  // returns only once it has ended
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

// What a helper says that is in the hands of the text it was broken by.
class Reader : public testing::Test {
 protected:
  static speech::Request request() {
    speech::Request out;
    out.seconds_max = 1;
    out.utterances.resize(3);
    return out;
  }
  sandbox::Taken number(speech::BlockKind kind, std::uint32_t value) {
    return reader_.take(kind, {reinterpret_cast<const char*>(&value), sizeof(value)});
  }
  sandbox::Taken start(std::uint32_t rate) { return number(speech::BlockKind::kStart, rate); }
  sandbox::Taken samples(std::size_t count) {
    return reader_.take(speech::BlockKind::kSamples, std::string(2 * count, '\0'));
  }

  SpeechReader reader_{request()};
};

TEST_F(Reader, JoinsPartsOfBothEngines) {
  EXPECT_EQ(start(16000), sandbox::Taken::kMore);
  EXPECT_EQ(samples(1600), sandbox::Taken::kMore);
  EXPECT_EQ(start(22050), sandbox::Taken::kMore);
  EXPECT_EQ(samples(2205), sandbox::Taken::kMore);
  EXPECT_EQ(number(speech::BlockKind::kEnd, 0), sandbox::Taken::kLast);
  const Result<Speech, SpeechFault> speech = std::move(reader_).speech();
  ASSERT_TRUE(speech);
  EXPECT_EQ(speech->rate, 22050);
  EXPECT_EQ(speech->samples.size(), 2U * 4410);
}

// At one sample a second megabytes would be weeks, which no memory holds at 48,000.
TEST_F(Reader, RatesOfNoEngineAreNonsense) {
  for (const std::uint32_t rate : {0U, 1U, 8000U, 15999U, 22051U, 48000U, 0xFFFFFFFFU}) {
    EXPECT_EQ(start(rate), sandbox::Taken::kNonsense) << rate;
  }
  EXPECT_EQ(samples(1), sandbox::Taken::kNonsense) << "of no part";
}

TEST_F(Reader, MorePartsThanUtterancesAreNonsense) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(start(i % 2 == 0 ? 16000 : 22050), sandbox::Taken::kMore);
  }
  EXPECT_EQ(start(22050), sandbox::Taken::kNonsense);
}

TEST_F(Reader, MoreSamplesThanWereAskedForAreNonsense) {
  EXPECT_EQ(start(22050), sandbox::Taken::kMore);
  EXPECT_EQ(samples(22050), sandbox::Taken::kMore);
  EXPECT_EQ(samples(1), sandbox::Taken::kNonsense);
}

TEST(SpeechHelper, AMissingProgramIsATypedFault) {
  LocalProvider provider(LocalOptions{.helper_path = "/nonexistent/audio-speech"});
  for (int i = 0; i < 6; ++i) {
    const Answer answer = Pending(provider, prompt("Hello")).wait();
    EXPECT_EQ(fault_of(answer), Fault::kRetrySame);
    EXPECT_TRUE(answer.error().retry_after);
  }
}

// A program that answers nothing of the kind.
TEST(SpeechHelper, AWrongProgramIsATypedFault) {
  LocalProvider provider(LocalOptions{.helper_path = "/bin/true"});
  EXPECT_EQ(fault_of(Pending(provider, prompt("Hello")).wait()), Fault::kRetrySame);
}

}  // namespace
}  // namespace audiogen
