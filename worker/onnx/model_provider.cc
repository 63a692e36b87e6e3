#include "worker/onnx/model_provider.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include <unistd.h>

#include "common/domain/pricing.h"
#include "worker/audio/pipeline.h"
#include "worker/local/numbers.h"
#include "worker/local/text.h"
#include "worker/onnx/answer_reader.h"

namespace audiogen::onnx {
namespace {

using std::chrono::seconds;

// While a large model is loaded again the next entry is asked.
constexpr std::chrono::milliseconds kPatience{1000};

ProviderFault fault_of(sandbox::Ending ending) {
  switch (ending) {
    case sandbox::Ending::kCanceled:
      return {Fault::kCanceled, "canceled", {}};
    case sandbox::Ending::kDeadline:
      return {Fault::kOutOfTime, "deadline", {}};
    case sandbox::Ending::kUnavailable:
      return {Fault::kTryNext, "the model helper does not run", {}};
    case sandbox::Ending::kComplete:
    case sandbox::Ending::kCrashed:
      break;
  }
  return {Fault::kBrokenByInput, "the model crashes on this text", {}};
}

ProviderFault unsupported(std::string why) {
  return {Fault::kUnsupportedInput, std::move(why), {}};
}

// What stands for a language in an entry: "en" for "en-us".
std::string_view code_of(std::string_view language) {
  const std::string_view base = language.substr(0, language.find('-'));
  return base == "cmn" ? "zh" : base == "nb" ? "no" : base;
}

// Is all of it in `languages`, as far as can be told? Letters of a script that is nobody's
// (Tibetan) are in none.
bool is_in(const std::vector<std::string>& languages, const std::string& text) {
  if (languages.empty()) {
    return true;
  }
  if (!has_voices(text)) {
    return false;
  }
  const auto is_ours = [&](const TextRun& run) {
    // Numbers are said in any.
    return run.emoji || !has_letters(run.text) ||
           std::any_of(languages.begin(), languages.end(), [&](const std::string& one) {
             return code_of(one) == code_of(run.language);
           });
  };
  // What tells no more than its script is in any of them that has it.
  return std::any_of(languages.begin(), languages.end(), [&](const std::string& own) {
    const std::vector<TextRun> runs = split_languages(text, own);
    return std::all_of(runs.begin(), runs.end(), is_ours);
  });
}

// The first of several files (with commas between) that cannot be read.
std::optional<std::string> unreadable(const std::string& files) {
  for (std::size_t from = 0; from < files.size();) {
    const std::size_t to = std::min(files.find(',', from), files.size());
    const std::string file = files.substr(from, to - from);
    if (access(file.c_str(), R_OK) != 0) {
      return file;
    }
    from = to + 1;
  }
  return std::nullopt;
}

}  // namespace

std::string ModelOptions::default_helper_path() {
  return sandbox::Helper::path_of("audio-onnx", "ONNX_HELPER");
}

ModelProvider::ModelProvider(ModelOptions options)
    : options_(std::move(options)),
      helper_(
          options_.helper_path,
          kProtocolVersion,
          {.arguments = arguments_of(options_.model), .time_max = kLoadMax, .patience = kPatience}),
      calls_(options_.able.max_in_flight,
             [this](const BlockingCalls::Call& call) { return make(call); }) {}

std::optional<std::string> ModelProvider::prepare() {
  const Model& model = options_.model;
  if (unreadable(model.runtime + "/" + kRuntimeLibrary)) {
    return "the runtime is not installed: there is no " + std::string(kRuntimeLibrary) + " in " +
           model.runtime;
  }
  if (std::error_code error; !std::filesystem::is_directory(model.folder, error)) {
    return "there is no folder " + model.folder;
  }
  for (const std::string& files :
       {model.file, model.tokens, model.voices, model.data, model.lexicon, model.rules}) {
    if (const std::optional<std::string> missing = unreadable(files)) {
      return "cannot read " + *missing;
    }
  }
  if (const std::optional<std::string> why = helper_.prepare()) {
    return "the model does not load: " + *why;
  }
  return std::nullopt;
}

Result<Audio, ProviderFault> ModelProvider::make(const BlockingCalls::Call& call) {
  const GenerationRequest& request = *call.request.request;
  Request asked;
  asked.text = with_numbers_said(clean_text(request.prompt), "");
  if (!is_speakable(asked.text)) {
    return unsupported("nothing to speak");
  }
  if (!is_in(options_.languages, asked.text)) {
    ProviderFault fault = unsupported("the text is in a language that the model does not read");
    fault.no_voice = true;
    return fault;
  }
  if (!options_.languages.empty()) {
    asked.text = drop_unread(asked.text);
  }
  const double speed = options_.speaks_at_speed ? request.speed : 1.0;
  asked.speed_permille = static_cast<std::uint32_t>(std::lround(speed * 1000));
  asked.speaker = options_.speaker(request);
  // A second more than is delivered, rounded up, so that the pipeline sees that there was more; and
  // as much more of what it is going to make faster.
  asked.seconds_max = static_cast<std::uint32_t>(
      std::ceil((static_cast<double>(longest_ms(request.max_credits)) / 1000 + 1) *
                std::max(1.0, request.speed / speed)));
  const seconds time_max = std::chrono::ceil<seconds>(options_.time_max);
  asked.limits = {.memory_mib = options_.memory_mib,
                  .cpu_seconds = static_cast<std::uint32_t>(time_max.count()),
                  .wall_seconds = static_cast<std::uint32_t>(time_max.count() + 5)};
  std::optional<std::string> packet = encode(asked);
  if (!packet) {
    return unsupported("the text is too long");
  }
  const auto out_of_time = std::chrono::steady_clock::now() + options_.time_max;
  const auto deadline = std::min(call.request.deadline, out_of_time);
  AnswerReader reader(asked.seconds_max);
  const sandbox::Ending ending = helper_.ask(
      {.packet = *std::move(packet), .deadline = deadline, .cancellation = &call.cancellation},
      [&] { reader = AnswerReader(asked.seconds_max); },
      [&](std::uint32_t kind, std::string_view payload) {
        return reader.take(static_cast<BlockKind>(kind), payload);
      });
  if (ending == sandbox::Ending::kDeadline && deadline == out_of_time) {
    return ProviderFault{Fault::kBrokenByInput, "the model takes too long on this text", {}};
  }
  if (ending != sandbox::Ending::kComplete) {
    // That its own time was over before a child had begun is not the helper's fault.
    const bool late = ending == sandbox::Ending::kUnavailable &&
                      std::chrono::steady_clock::now() >= call.request.deadline;
    return fault_of(late ? sandbox::Ending::kDeadline : ending);
  }
  const std::size_t samples = reader.samples().size() / sizeof(std::int16_t);
  if (reader.end() == EndReason::kNothing ||
      samples * 1000 < static_cast<std::size_t>(kDurationMinMilliseconds) *
                           static_cast<std::size_t>(reader.rate())) {
    return unsupported("the model finds nothing to speak in the text");
  }
  Audio audio;
  audio.rate = reader.rate();
  audio.bytes = std::move(reader.samples());
  audio.speed_applied = static_cast<double>(asked.speed_permille) / 1000;
  audio.target_lufs = kSpokenLufs;
  return audio;
}

}  // namespace audiogen::onnx
