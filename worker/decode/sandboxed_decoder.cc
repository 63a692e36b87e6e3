#include "worker/decode/sandboxed_decoder.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "worker/decode/protocol.h"

namespace audiogen {
namespace {

using decode::BlockKind;
using decode::read_as;
using sandbox::Ending;
using sandbox::Taken;

// The child's own alarm comes first.
constexpr auto kGrace = std::chrono::seconds(2);

// A file in memory that nobody can change any more; -1 when the system has no room for it.
UniqueFd sealed_file(std::string_view bytes) {
  UniqueFd file(memfd_create("media", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  while (file.get() >= 0 && !bytes.empty()) {
    const ssize_t size = write(file.get(), bytes.data(), bytes.size());
    if (size < 0 && errno != EINTR) {
      file.reset();
    }
    bytes.remove_prefix(size > 0 ? static_cast<std::size_t>(size) : 0);
  }
  constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (file.get() >= 0 && fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    file.reset();
  }
  return file;
}

DecodeFault fault_of(Ending ending) {
  switch (ending) {
    case Ending::kComplete:
    case Ending::kCrashed:
      return DecodeFault::kCrashed;
    case Ending::kDeadline:
    case Ending::kCanceled:
      return DecodeFault::kTimedOut;
    case Ending::kUnavailable:
      return DecodeFault::kUnavailable;
  }
  return DecodeFault::kUnavailable;
}

// Has one file decoded; nullopt when the answer is complete.
std::optional<DecodeFault> ask(sandbox::Helper& helper,
                               decode::Request request,
                               std::string_view bytes,
                               const std::function<void()>& begin,
                               const sandbox::Helper::TakeBlock& take) {
  const UniqueFd file = sealed_file(bytes);
  if (file.get() < 0) {
    log::error("no memory file for the decoder", {{"error", std::strerror(errno)}});
    return DecodeFault::kUnavailable;
  }
  request.size = static_cast<std::uint32_t>(bytes.size());
  std::optional<DecodeFault> fault;
  const Ending ending =
      helper.ask({.packet = std::string(decode::bytes_of(request)),
                  .attachment = file.get(),
                  .deadline = std::chrono::steady_clock::now() +
                              std::chrono::seconds(request.limits.wall_seconds) + kGrace},
                 begin,
                 [&](std::uint32_t kind, std::string_view payload) {
                   if (static_cast<BlockKind>(kind) != BlockKind::kFault) {
                     return take(kind, payload);
                   }
                   const auto value = read_as<std::uint32_t>(payload);
                   // What only this side can know is no answer of a child.
                   if (!value || *value < 1 ||
                       *value > static_cast<std::uint32_t>(DecodeFault::kImageTooLarge)) {
                     return Taken::kNonsense;
                   }
                   fault = static_cast<DecodeFault>(*value);
                   return Taken::kLast;
                 });
  return ending == Ending::kComplete ? fault : std::optional(fault_of(ending));
}

// Puts the blocks of sound together.
class SoundReader {
 public:
  explicit SoundReader(const Sink& sink) : sink_(sink) {}

  Taken take(BlockKind kind, std::string_view payload) {
    switch (kind) {
      case BlockKind::kStart:
        return take_start(payload);
      case BlockKind::kSamples:
        return take_samples(payload);
      case BlockKind::kSound:
        return take_end(payload);
      default:
        return Taken::kNonsense;
    }
  }

  // A new helper decodes the file once more, from the start, to the same samples: those that the
  // sink has are passed over.
  void restart() {
    sound_ = {};
    seen_ = 0;
  }

  const Unpacked& sound() const { return sound_; }

 private:
  Taken take_start(std::string_view payload) {
    const auto rate = read_as<std::uint32_t>(payload);
    if (!rate || sound_.rate != 0 || *rate > static_cast<std::uint32_t>(kRateMax)) {
      return Taken::kNonsense;
    }
    sound_.rate = static_cast<int>(*rate);
    const bool another = given_ > 0 && sound_.rate != given_rate_;
    return another || check_shape(sound_.rate, 1) ? Taken::kNonsense : Taken::kMore;
  }

  Taken take_samples(std::string_view payload) {
    if (sound_.rate == 0 || payload.size() % sizeof(float) != 0) {
      return Taken::kNonsense;
    }
    block_.resize(payload.size() / sizeof(float));
    std::memcpy(block_.data(), payload.data(), payload.size());
    const std::size_t known = std::min(block_.size(), given_ - seen_);
    seen_ += block_.size();
    given_ = std::max(given_, seen_);
    given_rate_ = sound_.rate;
    // An end asked for is an end: the child stops when it finds the pipe closed.
    return sink_(std::span(block_).subspan(known), sound_.rate) ? Taken::kMore : Taken::kLast;
  }

  Taken take_end(std::string_view payload) {
    const auto end = read_as<decode::Sound>(payload);
    // A second answer that ends before the first is not of the same file.
    if (!end || seen_ < given_) {
      return Taken::kNonsense;
    }
    if (end->exact == 0 || given_ == 0) {
      return Taken::kLast;
    }
    if (end->format < 1 || end->format > static_cast<std::uint32_t>(OutputFormat::kOggOpus) ||
        end->rate > INT32_MAX || end->channels > 2) {
      return Taken::kNonsense;
    }
    sound_.exact = ExactFile{static_cast<OutputFormat>(end->format),
                             static_cast<int>(end->rate),
                             static_cast<int>(end->channels),
                             0};
    return Taken::kLast;
  }

  const Sink& sink_;
  Unpacked sound_;
  std::vector<float> block_;
  std::size_t seen_ = 0, given_ = 0;  // samples: of this answer, to the sink
  int given_rate_ = 0;                // Hz, of those that the sink has
};

}  // namespace

std::string SandboxedDecoder::default_path() {
  return sandbox::Helper::path_of("audio-decode", "DECODE_HELPER");
}

SandboxedDecoder::SandboxedDecoder(std::string path,
                                   const sandbox::Limits& limits,
                                   sandbox::Start start)
    : limits_(limits), helper_(std::move(path), decode::kProtocolVersion, std::move(start)) {}

Result<Unpacked, DecodeFault> SandboxedDecoder::unpack(std::string_view bytes,
                                                       AudioType type,
                                                       const Sink& sink) {
  decode::Request request;
  request.limits = limits_;
  request.type = static_cast<std::uint32_t>(type);
  SoundReader reader(sink);
  const auto fault = ask(
      helper_,
      request,
      bytes,
      [&] { reader.restart(); },
      [&](std::uint32_t kind, std::string_view payload) {
        return reader.take(static_cast<BlockKind>(kind), payload);
      });
  return fault ? Result<Unpacked, DecodeFault>(*fault) : reader.sound();
}

Result<ImageInfo, DecodeFault> SandboxedDecoder::unpack_image(std::string_view bytes,
                                                              ImageType type) {
  decode::Request request;
  request.limits = limits_;
  request.media = decode::Media::kImage;
  request.type = static_cast<std::uint32_t>(type);
  ImageInfo out{type};
  const auto fault = ask(
      helper_,
      request,
      bytes,
      [] {},
      [&](std::uint32_t kind, std::string_view payload) {
        const auto image = read_as<decode::Image>(payload);
        if (static_cast<BlockKind>(kind) != BlockKind::kImage || !image || image->width < 1 ||
            image->height < 1 || image->width > kImageSideMax || image->height > kImageSideMax) {
          return Taken::kNonsense;
        }
        out.width = static_cast<int>(image->width);
        out.height = static_cast<int>(image->height);
        return Taken::kLast;
      });
  return fault ? Result<ImageInfo, DecodeFault>(*fault) : out;
}

}  // namespace audiogen
