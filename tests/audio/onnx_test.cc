// Models of the operator's through the real helper program and the real runtime: what they say,
// what ends them, what they may read.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <future>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/onnx_model.h"
#include "tests/support/places.h"
#include "tests/support/wait.h"
#include "worker/audio/in_process_decoder.h"
#include "worker/audio/pipeline.h"
#include "worker/onnx/answer_reader.h"
#include "worker/onnx/model_provider.h"
#include "worker/sandbox/landlock.h"

namespace audiogen::onnx {
namespace {

using namespace std::chrono_literals;
using sandbox::Taken;
using test::TinyModel;
using testing::HasSubstr;
using Family = TinyModel::Family;
using Answer = Result<Audio, ProviderFault>;

constexpr auto kPatience = 60s;

ModelOptions options_for(const TinyModel& tiny, const std::string& family = "vits") {
  ModelOptions out;
  out.name = "mine";
  const auto in_folder = [&](const char* name) {
    const auto path = tiny.folder() / name;
    return std::filesystem::exists(path) ? path.string() : "";
  };
  out.model = {.runtime = test::onnx_runtime(),
               .family = family,
               .folder = tiny.folder(),
               .file = tiny.folder() / "model.onnx",
               .tokens = tiny.folder() / "tokens.txt",
               .voices = in_folder("voices.bin"),
               .data = in_folder("espeak-ng-data"),
               .lexicon = in_folder("lexicon.txt"),
               .rules = "",
               .language = "",
               .last_speaker = std::to_string(TinyModel::kSpeakers - 1)};
  out.able.max_in_flight = 2;
  out.speaker = [](const GenerationRequest& request) {
    return request.voice ? static_cast<std::uint32_t>(std::stoul(*request.voice)) : 0U;
  };
  return out;
}

// `voice` here is the number of a speaker.
GenerationRequest saying(const std::string& text,
                         const std::string& voice = "0",
                         double speed = 1.0) {
  GenerationRequest out;
  out.prompt = text;
  out.voice = voice;
  out.speed = speed;
  return out;
}

// A call under way.
struct Call {
  std::future<Answer> answer;
  std::shared_ptr<ProviderCall> call;
};

Call start(ModelProvider& provider, GenerationRequest request, std::chrono::milliseconds time) {
  auto promise = std::make_shared<std::promise<Answer>>();
  Call out{promise->get_future(), nullptr};
  out.call =
      provider.start({.request = std::make_shared<const GenerationRequest>(std::move(request)),
                      .request_key = "key",
                      .deadline = std::chrono::steady_clock::now() + time},
                     [promise](Answer answer) { promise->set_value(std::move(answer)); });
  return out;
}

Answer speak(ModelProvider& provider,
             GenerationRequest request,
             std::chrono::milliseconds time = kPatience) {
  return start(provider, std::move(request), time).answer.get();
}

Answer speak(ModelProvider& provider, const std::string& text) {
  return speak(provider, saying(text));
}

std::string outcome(const Answer& answer) {
  return answer ? "audio"
                : std::string(fault_name(answer.error().fault)) + ": " + answer.error().detail;
}

std::size_t samples_of(const Answer& answer) {
  return answer ? answer->bytes.size() / sizeof(std::int16_t) : 0;
}

// How often the sound passes zero upwards.
int turns_of(const Audio& audio) {
  std::vector<std::int16_t> samples(audio.bytes.size() / sizeof(std::int16_t));
  std::memcpy(samples.data(), audio.bytes.data(), audio.bytes.size());
  int out = 0;
  for (std::size_t i = 1; i < samples.size(); ++i) {
    out += samples[i - 1] < 0 && samples[i] >= 0 ? 1 : 0;
  }
  return out;
}

std::string file(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// The processes that a helper has made, and that are there.
std::vector<std::string> children_of(const ModelProvider& provider) {
  const std::string pid = std::to_string(provider.helper().process().value_or(0));
  std::istringstream in(file("/proc/" + pid + "/task/" + pid + "/children"));
  return {std::istream_iterator<std::string>(in), {}};
}

// Does it stand anywhere in what a process may write to?
bool remembers(const std::string& pid, const std::string& text) {
  std::ifstream memory("/proc/" + pid + "/mem", std::ios::binary);
  std::istringstream maps(file("/proc/" + pid + "/maps"));
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t from = 0, to = 0;
    char dash = 0;
    std::string rights;
    std::istringstream(line) >> std::hex >> from >> dash >> to >> rights;
    if (!rights.starts_with("rw")) {
      continue;
    }
    std::string part(to - from, '\0');
    memory.clear();
    memory.seekg(static_cast<std::streamoff>(from));
    memory.read(part.data(), static_cast<std::streamsize>(part.size()));
    if (part.find(text) != std::string::npos) {
      return true;
    }
  }
  return false;
}

std::string why(ModelOptions options) {
  return ModelProvider(std::move(options)).prepare().value_or("it loads");
}

TEST(OnnxModel, SaysWhatItKnows) {
  const TinyModel tiny;
  ModelProvider provider(options_for(tiny));
  EXPECT_EQ(provider.prepare(), std::nullopt);
  const Answer answer = speak(provider, "Hello world");
  ASSERT_TRUE(answer) << outcome(answer);
  EXPECT_EQ(answer->rate, TinyModel::kRate);
  // Three tokens, one between the words, two.
  EXPECT_EQ(samples_of(answer), 6U * TinyModel::kTokenSamples);
  EXPECT_EQ(answer->target_lufs, kSpokenLufs);
  // Every child begins as the one before.
  EXPECT_EQ(speak(provider, "Hello world")->bytes, answer->bytes);
}

TEST(OnnxModel, IsDeliveredAtTheRateAndLoudnessOfAll) {
  const TinyModel tiny;
  ModelProvider provider(options_for(tiny));
  GenerationRequest request = saying("hello world hello world hello world");
  request.output_format = OutputFormat::kWav;
  Answer answer = speak(provider, request);
  ASSERT_TRUE(answer) << outcome(answer);
  const std::size_t samples = samples_of(answer);
  InProcessDecoder decoder;
  const RenderSpec spec = render_spec(request, *answer);
  const auto rendered = render(*std::move(answer), spec, decoder);
  ASSERT_TRUE(rendered) << rendered.error().detail;
  EXPECT_EQ(rendered->rate, request.sample_rate);
  EXPECT_EQ(rendered->samples, samples * 24000 / TinyModel::kRate);
  EXPECT_TRUE(rendered->loudness_lufs);
}

TEST(OnnxModel, SpeaksFasterItselfOrLeavesItToUs) {
  const TinyModel tiny;
  ModelProvider native(options_for(tiny));
  const GenerationRequest request = saying("hello world", "0", 2.0);
  const Answer fast = speak(native, request);
  ASSERT_TRUE(fast) << outcome(fast);
  EXPECT_EQ(samples_of(fast), 6U * TinyModel::kTokenSamples / 2);
  EXPECT_EQ(fast->speed_applied, 2.0);
  ModelOptions options = options_for(tiny);
  options.speaks_at_speed = false;
  ModelProvider ours(std::move(options));
  const Answer normal = speak(ours, request);
  ASSERT_TRUE(normal) << outcome(normal);
  EXPECT_EQ(samples_of(normal), 6U * TinyModel::kTokenSamples);
  EXPECT_EQ(normal->speed_applied, 1.0);
}

TEST(OnnxModel, HasItsSpeakers) {
  const TinyModel tiny;
  ModelProvider provider(options_for(tiny));
  const Answer first = speak(provider, saying("hello", "0"));
  const Answer third = speak(provider, saying("hello", "2"));
  ASSERT_TRUE(first && third) << outcome(first) << outcome(third);
  EXPECT_NEAR(turns_of(*third), 3 * turns_of(*first), 6);
  // Told when it is loaded, because a child says what a text has it say.
  ModelOptions options = options_for(tiny);
  options.model.last_speaker = std::to_string(TinyModel::kSpeakers);
  EXPECT_EQ(why(options), "the model does not load: the model has no speaker 3");
}

TEST(OnnxModel, LeavesOutWhatItsLexiconDoesNotHave) {
  const TinyModel tiny;
  ModelProvider provider(options_for(tiny));
  EXPECT_EQ(outcome(speak(provider, "zebra")),
            "unsupported_input: the model finds nothing to speak in the text");
  EXPECT_EQ(outcome(speak(provider, "\u200b")), "unsupported_input: nothing to speak");
  EXPECT_EQ(samples_of(speak(provider, "hello zebra")), 3U * TinyModel::kTokenSamples);
}

TEST(OnnxModel, ReadsItsLanguagesAlone) {
  const TinyModel tiny;
  ModelOptions options = options_for(tiny);
  options.languages = {"en"};
  ModelProvider provider(std::move(options));
  EXPECT_EQ(outcome(speak(provider, "hello")), "audio");
  for (const char* text : {"Guten Morgen, ich hätte gerne ein Stück Kuchen mit viel Sahne, bitte.",
                           "Привет, как дела? hello",
                           "こんにちは",
                           "བོད་ཡིག",
                           "hello བོད་ཡིག"}) {
    EXPECT_EQ(outcome(speak(provider, text)),
              "unsupported_input: the text is in a language that the model does not read")
        << text;
  }
  EXPECT_EQ(samples_of(speak(provider, "hello there, hello there ཀ")),
            samples_of(speak(provider, "hello there, hello there")))
      << "a letter of another script is not spelled out";
}

TEST(OnnxModel, AreOfAllFamilies) {
  for (const auto& [family, name] : {std::pair{Family::kPiper, "vits"},
                                     std::pair{Family::kKokoro, "kokoro"},
                                     std::pair{Family::kKitten, "kitten"}}) {
    SCOPED_TRACE(static_cast<int>(family));
    const TinyModel tiny(family);
    ModelProvider provider(options_for(tiny, name));
    ASSERT_EQ(provider.prepare(), std::nullopt);
    const Answer little = speak(provider, "Good day.");
    const Answer more = speak(provider, "Good day to you and to all the others.");
    ASSERT_TRUE(little && more) << outcome(little) << outcome(more);
    EXPECT_GT(samples_of(little), 4U * TinyModel::kTokenSamples);
    EXPECT_GT(samples_of(more), 2 * samples_of(little));
    EXPECT_EQ(samples_of(speak(provider, saying("Good day.", "0", 0.5))), 2 * samples_of(little));
    const Answer third = speak(provider, saying("Good day.", "2"));
    ASSERT_TRUE(third) << outcome(third);
    EXPECT_NEAR(turns_of(*third), 3 * turns_of(*little), turns_of(*little) / 10);
  }
}

TEST(OnnxModel, StopsWhereNoMoreIsPaidFor) {
  const TinyModel tiny;
  ModelProvider provider(options_for(tiny));
  std::string text;
  for (int i = 0; i < 150; ++i) {
    text += "hello world. ";  // 0.7 s
  }
  GenerationRequest request = saying(text);
  request.max_credits = kChargeMin;
  const Answer answer = speak(provider, request);
  ASSERT_TRUE(answer) << outcome(answer);
  const auto paid_for = static_cast<std::size_t>(longest_ms(kChargeMin)) * TinyModel::kRate / 1000;
  EXPECT_GT(samples_of(answer), paid_for);
  EXPECT_LE(samples_of(answer), paid_for + 2UL * TinyModel::kRate);
}

TEST(OnnxHelper, ATextThatCrashesTheModelIsItsOwnFault) {
  const TinyModel tiny;
  ModelProvider provider(options_for(tiny));
  ASSERT_EQ(provider.prepare(), std::nullopt);
  const auto before = provider.helper().process();
  Call other = start(provider, saying("hello"), kPatience);
  EXPECT_EQ(outcome(speak(provider, "hello crash")),
            "broken_by_input: the model crashes on this text");
  EXPECT_EQ(outcome(other.answer.get()), "audio");
  EXPECT_EQ(outcome(speak(provider, "hello")), "audio");
  EXPECT_EQ(provider.helper().process(), before);
}

TEST(OnnxHelper, ATextThatNeedsTooMuchMemoryIsItsOwnFault) {
  const TinyModel tiny;
  ModelOptions options = options_for(tiny);
  options.memory_mib = 256;
  ModelProvider provider(std::move(options));
  EXPECT_EQ(outcome(speak(provider, "flood")), "broken_by_input: the model crashes on this text");
  EXPECT_EQ(outcome(speak(provider, "hello")), "audio");
}

TEST(OnnxHelper, ATextWithoutAnEndIsStopped) {
  const TinyModel tiny;
  ModelOptions options = options_for(tiny);
  options.time_max = 300ms;
  ModelProvider provider(std::move(options));
  ASSERT_EQ(provider.prepare(), std::nullopt);
  EXPECT_EQ(outcome(speak(provider, "hang")),
            "broken_by_input: the model takes too long on this text");
  EXPECT_EQ(outcome(speak(provider, saying("hang"), 50ms)), "out_of_time: deadline");
}

// Nobody listens any more, and a child that writes nothing has to find out.
TEST(OnnxHelper, ACanceledTextUsesNoProcessor) {
  const TinyModel tiny;
  ModelOptions options = options_for(tiny);
  options.time_max = 1h;
  ModelProvider provider(std::move(options));
  ASSERT_EQ(provider.prepare(), std::nullopt);
  Call hanging = start(provider, saying("hang"), kPatience);
  ASSERT_TRUE(test::eventually(kPatience, [&] { return children_of(provider).size() == 1; }));
  hanging.call->cancel();
  EXPECT_EQ(outcome(hanging.answer.get()), "canceled: canceled");
  EXPECT_TRUE(test::eventually(kPatience, [&] { return children_of(provider).empty(); }));
}

TEST(OnnxHelper, IsReplacedWhenItDies) {
  const TinyModel tiny;
  ModelProvider provider(options_for(tiny));
  ASSERT_EQ(provider.prepare(), std::nullopt);
  const pid_t before = provider.helper().process().value_or(0);
  ASSERT_GT(before, 0);
  ASSERT_EQ(kill(before, SIGKILL), 0);
  // While it is loaded calls are the next entry's.
  EXPECT_TRUE(
      test::eventually(kPatience, [&] { return speak(provider, "hello").operator bool(); }));
  EXPECT_NE(provider.helper().process(), before);
}

// A program that starts as the helper does once there is a line in `gate`.
std::string gated_helper(const TinyModel& tiny, const std::string& gate) {
  EXPECT_EQ(mkfifo(gate.c_str(), 0600), 0);
  const std::string path = tiny.folder() / "helper";
  tiny.write("helper",
             "#!/bin/bash\nread <'" + gate + "'\nexec '" + ModelOptions::default_helper_path() +
                 "' \"$@\"\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(OnnxHelper, IsNotWaitedForWhenItLoadsAgain) {
  const TinyModel tiny;
  const std::string gate = tiny.folder() / "gate";
  ModelOptions options = options_for(tiny);
  options.helper_path = gated_helper(tiny, gate);
  ModelProvider provider(std::move(options));
  std::fstream opener(gate);  // Of both ends of it: neither this nor what it writes waits.
  opener << "go" << std::endl;
  ASSERT_EQ(provider.prepare(), std::nullopt);
  const pid_t before = *provider.helper().process();
  ASSERT_EQ(kill(before, SIGKILL), 0);
  std::vector<Call> calls;
  for (int i = 0; i < 6; ++i) {
    calls.push_back(start(provider, saying("hello"), kPatience));
  }
  for (Call& call : calls) {
    EXPECT_EQ(outcome(call.answer.get()), "try_next: the model helper does not run");
  }
  const auto loading = provider.helper().process();
  EXPECT_TRUE(loading && loading != before) << "it goes on when nobody waits";
  opener << "go" << std::endl;
  EXPECT_TRUE(
      test::eventually(kPatience, [&] { return speak(provider, "hello").operator bool(); }));
  EXPECT_EQ(provider.helper().process(), loading);
}

TEST(OnnxHelper, IsWaitedForNoLongerThanACallMayTake) {
  const TinyModel tiny;
  const auto process = [&] {
    sandbox::Helper helper(gated_helper(tiny, tiny.folder() / "gate"),
                           kProtocolVersion,
                           {.time_max = std::chrono::milliseconds(kPatience) * 10});
    const auto ask = [&](sandbox::Request request) {
      return helper.ask(
          request,
          [] { ADD_FAILURE() << "it is not ready"; },
          [](std::uint32_t, std::string_view) { return Taken::kNonsense; });
    };
    const auto now = std::chrono::steady_clock::now();
    const sandbox::Cancellation never;
    sandbox::Cancellation cancellation;
    std::future<sandbox::Ending> canceled = std::async(std::launch::async, [&] {
      return ask({.packet = "", .deadline = now + 1h, .cancellation = &cancellation});
    });
    EXPECT_EQ(ask({.packet = "", .deadline = now + 50ms, .cancellation = &never}),
              sandbox::Ending::kUnavailable);
    cancellation.cancel();
    EXPECT_EQ(canceled.get(), sandbox::Ending::kCanceled);
    return helper.process().value_or(0);
  }();
  ASSERT_GT(process, 0);
  EXPECT_EQ(kill(process, 0), -1) << "nothing is left of one that hangs";
}

// The loader, which reads what somebody on the network has made, and the child, which reads a text.
TEST(OnnxHelper, IsWalledIn) {
  const TinyModel tiny;
  ModelOptions options = options_for(tiny);
  options.memory_mib = 512;
  ModelProvider provider(std::move(options));
  ASSERT_EQ(provider.prepare(), std::nullopt);
  const std::string helper = "/proc/" + std::to_string(*provider.helper().process());
  EXPECT_EQ(std::filesystem::read_symlink(helper + "/fd/2"), "/dev/null")
      << "what it complains of now may be a text";
  EXPECT_THAT(file(helper + "/status"), HasSubstr("NoNewPrivs:\t1\n"));
  EXPECT_THAT(file(helper + "/status"), HasSubstr("Seccomp:\t2\nSeccomp_filters:\t1\n"));
  EXPECT_EQ(file(helper + "/oom_score_adj"), "1000\n") << "it goes before the worker";
  Call hanging = start(provider, saying("hang"), kPatience);
  std::vector<std::string> children;
  ASSERT_TRUE(test::eventually(kPatience, [&] {
    children = children_of(provider);
    return children.size() == 1 &&
           file("/proc/" + children[0] + "/status").find("Seccomp_filters:\t2\n") !=
               std::string::npos;
  }));
  const std::string limits = file("/proc/" + children[0] + "/limits");
  EXPECT_THAT(limits, testing::ContainsRegex("Max file size +0 "));
  EXPECT_THAT(limits, testing::Not(testing::ContainsRegex("Max address space +unlimited")));
  hanging.call->cancel();
  hanging.answer.wait();
}

TEST(OnnxHelper, NoTextIsInTheMemoryOfTheNext) {
  const TinyModel tiny;
  ModelProvider provider(options_for(tiny));
  ASSERT_EQ(provider.prepare(), std::nullopt);
  EXPECT_EQ(outcome(speak(provider, "hello world and what only the first has said")), "audio");
  Call hanging = start(provider, saying("hang of the second"), kPatience);
  std::vector<std::string> children;
  ASSERT_TRUE(test::eventually(kPatience, [&] {
    children = children_of(provider);
    return children.size() == 1 && remembers(children[0], "hang of the second");
  }));
  EXPECT_FALSE(remembers(children[0], "only the first has said"));
  const std::string helper = std::to_string(*provider.helper().process());
  // It forgets once it has made the child.
  EXPECT_TRUE(
      test::eventually(kPatience, [&] { return !remembers(helper, "hang of the second"); }));
  hanging.call->cancel();
  hanging.answer.wait();
}

TEST(OnnxHelper, ReadsTheModelAloneAndWhereItsLinksLead) {
  if (!sandbox::landlock_available()) {
    GTEST_SKIP() << "this kernel has no Landlock";
  }
  const TinyModel tiny, elsewhere(Family::kPiper);
  // A file that is named may lie elsewhere: so tools that download models leave them.
  std::filesystem::rename(tiny.folder() / "tokens.txt", elsewhere.folder() / "blob");
  std::filesystem::create_symlink(elsewhere.folder() / "blob", tiny.folder() / "tokens.txt");
  EXPECT_EQ(why(options_for(tiny)), "it loads");
  // What is found by the way may not.
  const auto data = elsewhere.folder() / "espeak-ng-data";
  const auto system = std::filesystem::read_symlink(data);
  std::filesystem::remove(data);
  std::filesystem::create_directory(data);
  for (const auto& one : std::filesystem::directory_iterator(system)) {
    std::filesystem::create_symlink(one.path(), data / one.path().filename());
  }
  EXPECT_THAT(why(options_for(elsewhere)), HasSubstr("phontab': Permission denied"));
}

TEST(OnnxHelper, SaysWhyAModelDoesNotLoad) {
  const TinyModel tiny;
  ModelOptions options = options_for(tiny);
  options.model.runtime = "/nowhere";
  EXPECT_EQ(why(options),
            "the runtime is not installed: there is no libsherpa-onnx-c-api.so in /nowhere");
  options = options_for(tiny);
  options.model.folder = "/nowhere";
  EXPECT_EQ(why(options), "there is no folder /nowhere");
  options = options_for(tiny);
  options.model.rules = tiny.folder() / "none.fst";
  EXPECT_EQ(why(options), "cannot read " + options.model.rules);
  options = options_for(tiny);
  options.helper_path = "/nowhere/audio-onnx";
  EXPECT_THAT(why(options), HasSubstr("No such file"));
  // Of another family.
  options = options_for(tiny, "kitten");
  EXPECT_THAT(why(options), HasSubstr("the model does not load: "));
  const TinyModel kokoro(Family::kKokoro);
  options = options_for(kokoro, "kitten");
  EXPECT_THAT(why(options), HasSubstr("model_type"));
  options = options_for(kokoro);
  EXPECT_THAT(why(options), HasSubstr("comment"));
  options = options_for(tiny);
  options.model.runtime = test::program_path("../other-runtime");
  EXPECT_THAT(why(options), HasSubstr("the runtime is sherpa-onnx 1.12.40, needed is 1.13.8"));
  // Of a rate that the pipeline does not take.
  std::string model = file(tiny.folder() / "model.onnx");
  const std::size_t rate = model.find("16000");
  ASSERT_NE(rate, std::string::npos);
  tiny.write("model.onnx", model.replace(rate, 5, "96001"));
  EXPECT_THAT(why(options_for(tiny)), HasSubstr("the model makes 96001 samples a second"));
  // No model at all; and something else for a runtime.
  tiny.write("model.onnx", "not a model");
  EXPECT_THAT(why(options_for(tiny)), HasSubstr("parsing failed"));
  tiny.write(kRuntimeLibrary, "not a library");
  options = options_for(tiny);
  options.model.runtime = tiny.folder();
  EXPECT_THAT(why(options), HasSubstr("file too short"));
}

std::string_view bytes_of(const std::uint32_t& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

TEST(OnnxAnswer, IsNotBelieved) {
  const std::uint32_t rate = 16000, low = 7999, high = 96001, end = 0, nothing = 1, none = 2;
  {
    AnswerReader reader(1);
    EXPECT_EQ(reader.take(BlockKind::kStart, bytes_of(low)), Taken::kNonsense);
    EXPECT_EQ(reader.take(BlockKind::kStart, bytes_of(high)), Taken::kNonsense);
    EXPECT_EQ(reader.take(BlockKind::kStart, "abc"), Taken::kNonsense);
    EXPECT_EQ(reader.take(BlockKind::kSamples, "ab"), Taken::kNonsense);  // of no rate
    EXPECT_EQ(reader.take(static_cast<BlockKind>(9), "ab"), Taken::kNonsense);
    EXPECT_EQ(reader.take(BlockKind::kEnd, bytes_of(end)), Taken::kNonsense);  // of nothing
    EXPECT_EQ(reader.take(BlockKind::kEnd, bytes_of(none)), Taken::kNonsense);
    EXPECT_EQ(reader.take(BlockKind::kEnd, bytes_of(nothing)), Taken::kLast);
  }
  AnswerReader reader(1);
  EXPECT_EQ(reader.take(BlockKind::kStart, bytes_of(rate)), Taken::kMore);
  EXPECT_EQ(reader.take(BlockKind::kStart, bytes_of(rate)), Taken::kNonsense);
  EXPECT_EQ(reader.take(BlockKind::kSamples, "abc"), Taken::kNonsense);
  const std::string second(2UL * rate, 'x');
  EXPECT_EQ(reader.take(BlockKind::kSamples, second), Taken::kMore);
  EXPECT_EQ(reader.take(BlockKind::kSamples, "ab"), Taken::kNonsense);
  EXPECT_EQ(reader.take(BlockKind::kEnd, bytes_of(end)), Taken::kLast);
  EXPECT_EQ(reader.end(), EndReason::kDone);
  EXPECT_EQ(reader.samples(), second);
}

TEST(OnnxProtocol, GoesThereAndBack) {
  Model model;
  model.runtime = "/r";
  model.family = "kokoro";
  model.language = "en";
  model.last_speaker = "7";
  std::vector<const char*> words;
  const std::vector<std::string> arguments = arguments_of(model);
  for (const std::string& word : arguments) {
    words.push_back(word.c_str());
  }
  const auto same = model_of(words);
  ASSERT_TRUE(same);
  EXPECT_EQ(arguments_of(*same), arguments);
  words.pop_back();
  EXPECT_FALSE(model_of(words));
  const Request request{.limits = {.memory_mib = 7},
                        .speaker = 3,
                        .speed_permille = 1500,
                        .seconds_max = 121,
                        .text = "Hello"};
  const auto packet = encode(request);
  ASSERT_TRUE(packet);
  const auto back = decode(*packet);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->limits.memory_mib, 7U);
  EXPECT_EQ(back->speaker, 3U);
  EXPECT_EQ(back->speed_permille, 1500U);
  EXPECT_EQ(back->seconds_max, 121U);
  EXPECT_EQ(back->text, "Hello");
  EXPECT_FALSE(decode(packet->substr(0, 10)));
  EXPECT_FALSE(decode("x" + packet->substr(1)));
  Request long_one = request;
  long_one.text.assign(sandbox::kPacketMax, 'x');
  EXPECT_FALSE(encode(long_one));
}

}  // namespace
}  // namespace audiogen::onnx
