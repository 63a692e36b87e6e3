#include "worker/decode/sandboxed_decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/audio/codec.h"
#include "worker/decode/protocol.h"
#include "worker/sandbox/wire.h"

namespace audiogen {
namespace {

using decoding::BlockKind;

constexpr std::uint32_t kRateMin = 8000, kRateMax = 96000;  // Hz, as decode() promises

// A sealed memory file: nobody changes it between the helper's first and second attempt.
class SealedFile {
 public:
  explicit SealedFile(std::string_view content)
      : descriptor_(memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    while (!content.empty()) {
      const ssize_t count = write(descriptor_, content.data(), content.size());
      if (count <= 0) {
        return;
      }
      content.remove_prefix(static_cast<std::size_t>(count));
    }
    constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    sealed_ = descriptor_ >= 0 && fcntl(descriptor_, F_ADD_SEALS, kSeals) == 0;
  }
  SealedFile(const SealedFile&) = delete;
  SealedFile& operator=(const SealedFile&) = delete;
  ~SealedFile() {
    if (descriptor_ >= 0) {
      close(descriptor_);
    }
  }

  bool sealed() const { return sealed_; }
  const int& descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
  bool sealed_ = false;
};

// What both answers have in common: a refusal.
class DecodeListener : public sandbox::Listener {
 public:
  void begin() override {
    refusal_.reset();
    restart();
  }

  Taken take(std::uint32_t kind, std::string_view payload) final {
    const auto block = static_cast<BlockKind>(kind);
    if (block != BlockKind::kBad) {
      return take_block(block, payload);
    }
    const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
    if (payload.size() > decoding::kReasonMax ||
        !std::all_of(payload.begin(), payload.end(), printable)) {
      return Taken::kNonsense;
    }
    refusal_ = payload;
    return Taken::kComplete;
  }

  // Of a complete answer.
  const std::optional<std::string>& refusal() const { return refusal_; }

 private:
  virtual void restart() = 0;
  virtual Taken take_block(BlockKind block, std::string_view payload) = 0;

  std::optional<std::string> refusal_;
};

class SoundListener final : public DecodeListener {
 public:
  explicit SoundListener(double seconds_max) : seconds_max_(seconds_max) {}

  Decoded result() { return std::move(decoded_); }

 private:
  void restart() override { decoded_ = {}; }

  Taken take_block(BlockKind block, std::string_view payload) override {
    switch (block) {
      case BlockKind::kSound:
        return take_header(payload);
      case BlockKind::kSamples:
        return take_samples(payload);
      case BlockKind::kEnd:
        return payload.empty() && !decoded_.pcm.samples.empty() ? Taken::kComplete
                                                                : Taken::kNonsense;
      default:
        return Taken::kNonsense;
    }
  }

  Taken take_header(std::string_view payload) {
    decoding::SoundHeader header;
    if (decoded_.pcm.rate != 0 || !sandbox::take(payload, header) || !payload.empty() ||
        header.rate < kRateMin || header.rate > kRateMax || header.channels < 1 ||
        header.channels > 2 || header.exact > 1) {
      return Taken::kNonsense;
    }
    decoded_.pcm.rate = static_cast<int>(header.rate);
    decoded_.channels = static_cast<int>(header.channels);
    decoded_.exact = header.exact == 1;
    return Taken::kMore;
  }

  Taken take_samples(std::string_view payload) {
    std::vector<float>& samples = decoded_.pcm.samples;
    const std::size_t before = samples.size(), count = payload.size() / sizeof(float);
    if (decoded_.pcm.rate == 0 || payload.size() % sizeof(float) != 0 ||
        static_cast<double>(before + count) > seconds_max_ * decoded_.pcm.rate) {
      return Taken::kNonsense;
    }
    samples.resize(before + count);
    std::memcpy(samples.data() + before, payload.data(), payload.size());
    return std::all_of(samples.begin() + static_cast<std::ptrdiff_t>(before),
                       samples.end(),
                       [](float sample) { return std::isfinite(sample); })
               ? Taken::kMore
               : Taken::kNonsense;
  }

  const double seconds_max_;
  Decoded decoded_;
};

class ImageListener final : public DecodeListener {
 public:
  ImageInfo result() const { return info_; }

 private:
  void restart() override { info_ = {}; }

  Taken take_block(BlockKind block, std::string_view payload) override {
    decoding::ImageHeader header;
    constexpr std::uint32_t kSideMax = std::numeric_limits<int>::max();
    if (block != BlockKind::kImage || !sandbox::take(payload, header) || !payload.empty() ||
        header.type > static_cast<std::uint32_t>(ImageType::kWebp) || header.width < 1 ||
        header.width > kSideMax || header.height < 1 || header.height > kSideMax) {
      return Taken::kNonsense;
    }
    info_ = {static_cast<ImageType>(header.type),
             static_cast<int>(header.width),
             static_cast<int>(header.height)};
    return Taken::kComplete;
  }

  ImageInfo info_;
};

DecodeFault bad(std::string why) {
  return {DecodeFault::Kind::kBad, std::move(why)};
}

std::string packet_of(const decoding::Request& request) {
  std::string out;
  sandbox::put(out, request);
  return out;
}

// Asks the helper; nullopt when the listener has a result.
std::optional<DecodeFault> ask(sandbox::Helper& helper,
                               std::chrono::milliseconds time_max,
                               const decoding::Request& request,
                               std::string_view bytes,
                               DecodeListener& listener) {
  const auto unavailable = [](std::string why) {
    return DecodeFault{DecodeFault::Kind::kUnavailable, std::move(why)};
  };
  if (bytes.size() > kForeignMax) {
    return bad("too large");
  }
  const SealedFile file(bytes);
  if (!file.sealed()) {
    return unavailable("no memory file for the decoder");
  }
  const std::string packet = packet_of(request);
  const auto deadline = std::chrono::steady_clock::now() + time_max;
  const std::optional<sandbox::HelperFault> fault =
      helper.ask({packet, std::span(&file.descriptor(), 1), deadline}, listener);
  if (!fault) {
    return listener.refusal() ? std::optional(bad(*listener.refusal())) : std::nullopt;
  }
  switch (*fault) {
    case sandbox::HelperFault::kUnavailable:
      return unavailable("the decoder does not start");
    case sandbox::HelperFault::kDeadline:
      return bad("the decoder took too long");
    case sandbox::HelperFault::kCrashed:
    case sandbox::HelperFault::kCanceled:
      break;
  }
  return bad("the decoder crashed");
}

}  // namespace

std::string SandboxedDecoder::default_path() {
  return sandbox::Helper::beside("audio-decode", "DECODE_HELPER");
}

SandboxedDecoder::SandboxedDecoder(std::string path, std::chrono::milliseconds time_max)
    : helper_(std::move(path), decoding::kProtocolVersion), time_max_(time_max) {}

Result<Decoded, DecodeFault> SandboxedDecoder::decode(const Audio& audio, double seconds_max) {
  decoding::Request request;
  request.what = decoding::What::kSound;
  request.type = static_cast<std::uint32_t>(audio.type);
  request.rate = static_cast<std::uint32_t>(audio.rate);
  request.channels = static_cast<std::uint32_t>(audio.channels);
  request.seconds_max = std::bit_cast<std::uint64_t>(seconds_max);
  SoundListener listener(seconds_max);
  if (auto fault = ask(helper_, time_max_, request, audio.bytes, listener)) {
    return *std::move(fault);
  }
  return listener.result();
}

Result<ImageInfo, DecodeFault> SandboxedDecoder::inspect_image(std::string_view bytes) {
  decoding::Request request;
  request.what = decoding::What::kImage;
  ImageListener listener;
  if (auto fault = ask(helper_, time_max_, request, bytes, listener)) {
    return *std::move(fault);
  }
  return listener.result();
}

}  // namespace audiogen
