#include "worker/providers/onnx.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ascii.h"
#include "worker/onnx/model_provider.h"

namespace audiogen::onnx {
namespace {

constexpr double kMemoryMin = 64, kMemoryMax = 65536;  // MiB
constexpr std::uint32_t kMemory = 512;
constexpr std::uint32_t kSpeakerMax = 9999;
constexpr int kInFlightMax = 64;  // each has a thread here, and a process with a core and memory

constexpr std::array<ProviderOption, 9> kOptions = {{
    {.name = "folder",
     .about = "the folder of the model, and all that its helper may read; has to be given"},
    {.name = "family",
     .fallback = "vits",
     .about = "what the model is: `vits` (Piper too), `kokoro` or `kitten`",
     .choices = kFamilies},
    {.name = "lexicon",
     .about = "files in the folder that say how words are pronounced, with commas between them; "
              "else `lexicon.txt` for `vits`, if it is there"},
    {.name = "rules",
     .about = "files in the folder that rewrite numbers and dates (`.fst`), with commas between "
              "them"},
    {.name = "language", .about = "what `kokoro` speaks that has several languages (`en`, `es`)"},
    {.name = "languages",
     .about = "what the model reads (`en,es`; ISO 639-1): a text in another language, or in a "
              "script that no voice of `local` reads, goes to the next entry; else it is given "
              "whatever comes"},
    {.name = "speed",
     .fallback = "native",
     .about = "who makes it faster or slower: the model, which speaks so (`native`), or we by "
              "stretching what it makes (`ours`)",
     .choices = kNativeOrOurs},
    {.name = "memory_mib",
     .about = "what a call may use beside the model, in MiB, 64 to 65536; else 512",
     .whole = Range{kMemoryMin, kMemoryMax}},
    {.name = "runtime",
     .fallback = "/usr/local/lib/sherpa-onnx",
     .about = "the folder of `libsherpa-onnx-c-api.so` (`worker/onnx/README.md`)"},
}};

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t from = 0; from < list.size();) {
    const std::size_t to = std::min(list.find(',', from), list.size());
    out.push_back(list.substr(from, to - from));
    from = to + 1;
  }
  return out;
}

// The paths of files that are named within the folder.
std::string paths_of(const std::string& folder, const std::string& names) {
  std::string out;
  for (const std::string& name : parts_of(names)) {
    out += (out.empty() ? "" : ",") + folder + "/" + name;
  }
  return out;
}

bool is_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

bool is_language(const std::string& code) {
  return (code.size() == 2 || code.size() == 3) &&
         std::all_of(code.begin(), code.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

std::optional<std::uint32_t> speaker_in(const std::string& text) {
  std::uint32_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out <= kSpeakerMax
             ? std::optional(out)
             : std::nullopt;
}

void check(ProviderEntry& entry, const Complain& complain) {
  require_voices(entry, complain);
  if (entry.max_in_flight > kInFlightMax) {
    complain("max_in_flight must be at most " + std::to_string(kInFlightMax) +
             ": each call has a process");
  }
  for (const auto& [ours, theirs] : entry.voices) {
    if (!speaker_in(theirs)) {
      complain("voices." + ours + " must be the number of a speaker, as a text: \"0\" to \"9999\"");
    }
  }
  // With a comma the runtime would take it for several.
  const auto has_comma = [](const std::string& text) {
    return text.find(',') != std::string::npos;
  };
  if (!entry.option("folder").starts_with('/') || has_comma(entry.option("folder"))) {
    complain("options: folder must be the whole path of a folder, without a comma");
  }
  if (!is_name(entry.model) || has_comma(entry.model)) {
    complain("model must be the name of a file in the folder, without a comma");
  }
  for (const char* option : {"lexicon", "rules"}) {
    const std::vector<std::string> names = parts_of(entry.option(option));
    if (!std::all_of(names.begin(), names.end(), is_name)) {
      complain(std::string("options: ") + option + " must be names of files in the folder");
    }
  }
  const std::vector<std::string> codes = parts_of(entry.option("languages"));
  if (!std::all_of(codes.begin(), codes.end(), is_language)) {
    complain("options: languages must be codes as \"en,es\"");
  }
}

Model model_of(const ProviderEntry& entry) {
  Model out;
  out.runtime = entry.option("runtime");
  out.family = entry.option("family");
  out.folder = entry.option("folder");
  out.file = out.folder + "/" + entry.model;
  out.tokens = out.folder + "/tokens.txt";
  out.lexicon = paths_of(out.folder, entry.option("lexicon"));
  out.rules = paths_of(out.folder, entry.option("rules"));
  out.language = entry.option("language");
  std::uint32_t last = 0;
  for (const auto& [ours, theirs] : entry.voices) {
    last = std::max(last, speaker_in(theirs).value_or(0));
  }
  out.last_speaker = std::to_string(last);
  const auto if_there = [&out](const char* name) {
    const std::string path = out.folder + "/" + name;
    std::error_code error;
    return std::filesystem::exists(path, error) ? path : "";
  };
  out.data = if_there("espeak-ng-data");
  if (out.family == "vits") {
    out.lexicon = out.lexicon.empty() ? if_there("lexicon.txt") : out.lexicon;
  } else {
    out.voices = out.folder + "/voices.bin";
  }
  return out;
}

std::unique_ptr<AudioProvider> make(const ProviderEntry& entry) {
  ModelOptions options;
  options.name = entry.name;
  options.model = model_of(entry);
  options.able = capabilities_of(entry);
  options.speaker = [entry](const GenerationRequest& request) {
    return speaker_in(voice_of(entry, request)).value_or(0);
  };
  options.languages = parts_of(entry.option("languages"));
  options.speaks_at_speed = is_native(entry, "speed");
  options.time_max = entry.timeout;
  const std::string& memory = entry.option("memory_mib");
  options.memory_mib = memory.empty() ? kMemory : static_cast<std::uint32_t>(std::stoul(memory));
  return std::make_unique<ModelProvider>(std::move(options));
}

void promise(const ProviderEntry& entry, Capabilities& able) {
  if (is_native(entry, "speed")) {
    able.native_speed = kSpeedRange;
  }
  if (!able.price) {
    able.price = ProviderPrice{PriceUnit::kCall, Micros{0}};
  }
}

}  // namespace

constinit const ProviderKind kKind = {
    .name = "onnx",
    .about = "a model of your own, in a helper of the worker's: Piper, Kokoro, Kitten",
    .model = "model.onnx",
    .timeout = std::chrono::seconds(120),
    .max_in_flight = 2,
    .tier = kTierOfTheHouse,
    .options = kOptions,
    .check = &check,
    .promise = &promise,
    .format = &make,
};

}  // namespace audiogen::onnx
