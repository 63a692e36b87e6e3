#include "worker/onnx/engine.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "worker/sandbox/zygote.h"

namespace audiogen::onnx {
namespace {

// Where the runtime learns what the processor can do.
constexpr const char* kProcessor[] = {"/proc/cpuinfo", "/sys/devices/system/cpu"};
constexpr std::size_t kBlockSamples = 16384;

void complain(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
}

// A function of the library; ends the process when there is none.
template <class Function>
Function* find(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    complain(std::string("the runtime has no ") + name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

// Nullptr after a complaint.
void* open_library(const std::string& folder) {
  const std::string path = folder + "/" + kRuntimeLibrary;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    complain(dlerror());
    return nullptr;
  }
  const std::string version = find<sherpa::GetVersionStr>(library, "SherpaOnnxGetVersionStr")();
  if (version != kRuntimeVersion) {
    complain("the runtime is sherpa-onnx " + version + ", needed is " +
             std::string(kRuntimeVersion));
    return nullptr;
  }
  return library;
}

sherpa::Config config_of(const Model& model) {
  sherpa::Config out{};
  // More would be threads, which a fork leaves behind.
  out.num_threads = 1;
  out.provider = "cpu";
  out.max_num_sentences = 1;
  out.rule_fsts = model.rules.c_str();
  if (model.family == "kokoro") {
    out.kokoro = {.model = model.file.c_str(),
                  .voices = model.voices.c_str(),
                  .tokens = model.tokens.c_str(),
                  .data_dir = model.data.c_str(),
                  .length_scale = 1,
                  .dict_dir = nullptr,
                  .lexicon = model.lexicon.c_str(),
                  .lang = model.language.c_str()};
  } else if (model.family == "kitten") {
    out.kitten = {.model = model.file.c_str(),
                  .voices = model.voices.c_str(),
                  .tokens = model.tokens.c_str(),
                  .data_dir = model.data.c_str(),
                  .length_scale = 1};
  } else {
    out.vits.model = model.file.c_str();
    out.vits.lexicon = model.lexicon.c_str();
    out.vits.tokens = model.tokens.c_str();
    out.vits.data_dir = model.data.c_str();
  }
  return out;
}

// In MiB, of this process; `statm` is proc(5)'s, opened when that could still be done.
std::uint32_t address_space(int statm) {
  char text[128] = {};
  const bool known = pread(statm, text, sizeof(text) - 1, 0) > 0;
  const unsigned long pages = known ? std::strtoul(text, nullptr, 10) : 0;
  return static_cast<std::uint32_t>(pages * static_cast<unsigned long>(getpagesize()) >> 20) + 1;
}

using sandbox::write_block;

[[noreturn]] void end(EndReason reason) {
  write_block(BlockKind::kEnd, &reason, sizeof(reason));
  _exit(0);
}

std::int16_t sample_of(float value) {
  return std::isfinite(value)
             ? static_cast<std::int16_t>(std::lround(std::clamp(value, -1.0F, 1.0F) * 32767.0F))
             : std::int16_t{0};
}

// Of one request.
struct Speaking {
  std::size_t left;  // samples that are still wanted
  bool heard = false;
};

std::int32_t on_samples(const float* samples, std::int32_t count, void* argument) {
  Speaking& speaking = *static_cast<Speaking*>(argument);
  const std::size_t wanted =
      std::min(speaking.left, static_cast<std::size_t>(std::max(count, std::int32_t{0})));
  std::vector<std::int16_t> block;
  for (std::size_t done = 0; done < wanted; done += block.size()) {
    block.resize(std::min(kBlockSamples, wanted - done));
    std::transform(samples + done, samples + done + block.size(), block.begin(), sample_of);
    write_block(BlockKind::kSamples, block.data(), block.size() * sizeof(std::int16_t));
  }
  speaking.heard = speaking.heard || wanted > 0;
  speaking.left -= wanted;
  return speaking.left > 0 ? 1 : 0;
}

}  // namespace

std::vector<std::string> readable_of(const Model& model) {
  // Each of them by itself, too: it may be a link to somewhere else.
  std::vector<std::string> out = {model.folder};
  for (const std::string& files :
       {model.file, model.tokens, model.voices, model.data, model.lexicon, model.rules}) {
    for (std::size_t from = 0; from < files.size();) {
      const std::size_t to = std::min(files.find(',', from), files.size());
      out.push_back(files.substr(from, to - from));
      from = to + 1;
    }
  }
  return out;
}

std::optional<Engine> load(const Model& model) {
  const int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  void* const library = open_library(model.runtime);
  if (library == nullptr) {
    return std::nullopt;
  }
  std::vector<std::string> readable = readable_of(model);
  readable.insert(readable.end(), std::begin(kProcessor), std::end(kProcessor));
  if (!sandbox::fence(readable)) {
    complain("the kernel has no seccomp filters");
    return std::nullopt;
  }
  const sherpa::Config config = config_of(model);
  const sherpa::Tts* const tts =
      find<sherpa::CreateOfflineTts>(library, "SherpaOnnxCreateOfflineTts")(&config);
  if (tts == nullptr) {
    return std::nullopt;
  }
  const auto rate = find<sherpa::SampleRate>(library, "SherpaOnnxOfflineTtsSampleRate")(tts);
  if (rate < static_cast<std::int32_t>(kRateMin) || rate > static_cast<std::int32_t>(kRateMax)) {
    complain("the model makes " + std::to_string(rate) +
             " samples a second; 8000 to 96000 are taken");
    return std::nullopt;
  }
  // A model of one speaker may say that it has none.
  const auto speakers = find<sherpa::NumSpeakers>(library, "SherpaOnnxOfflineTtsNumSpeakers")(tts);
  if (std::strtol(model.last_speaker.c_str(), nullptr, 10) >= std::max(speakers, 1)) {
    complain("the model has no speaker " + model.last_speaker);
    return std::nullopt;
  }
  const Engine out{.tts = tts,
                   .generate = find<sherpa::GenerateWithCallbackWithArg>(
                       library, "SherpaOnnxOfflineTtsGenerateWithCallbackWithArg"),
                   .rate = static_cast<std::uint32_t>(rate),
                   .memory_mib = address_space(statm)};
  close(statm);
  return out;
}

void speak_and_exit(const Request& request, const Engine& engine, const sandbox::Sandbox& sandbox) {
  sandbox::Limits limits = request.limits;
  limits.memory_mib += engine.memory_mib;
  if (!sandbox.enter(limits)) {
    _exit(1);
  }
  write_block(BlockKind::kStart, &engine.rate, sizeof(engine.rate));
  Speaking speaking{.left = std::size_t{request.seconds_max} * engine.rate};
  engine.generate(engine.tts,
                  request.text.c_str(),
                  static_cast<std::int32_t>(request.speaker),
                  static_cast<float>(request.speed_permille) / 1000.0F,
                  on_samples,
                  &speaking);
  end(speaking.heard ? EndReason::kDone : EndReason::kNothing);
}

}  // namespace audiogen::onnx
