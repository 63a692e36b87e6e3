#include "worker/onnx/protocol.h"

#include <cstring>
#include <type_traits>

namespace audiogen::onnx {
namespace {

constexpr std::array kParts = {&Model::runtime,
                               &Model::family,
                               &Model::folder,
                               &Model::file,
                               &Model::tokens,
                               &Model::voices,
                               &Model::data,
                               &Model::lexicon,
                               &Model::rules,
                               &Model::language,
                               &Model::last_speaker};

struct RequestHeader {
  std::uint32_t version;
  sandbox::Limits limits;
  std::uint32_t speaker, speed_permille, seconds_max;
};
static_assert(std::has_unique_object_representations_v<RequestHeader>);

}  // namespace

std::vector<std::string> arguments_of(const Model& model) {
  std::vector<std::string> out;
  for (const auto part : kParts) {
    out.push_back(model.*part);
  }
  return out;
}

std::optional<Model> model_of(std::span<const char* const> arguments) {
  if (arguments.size() != kParts.size()) {
    return std::nullopt;
  }
  Model out;
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    out.*kParts[i] = arguments[i];
  }
  return out;
}

std::optional<std::string> encode(const Request& request) {
  const RequestHeader header{kProtocolVersion,
                             request.limits,
                             request.speaker,
                             request.speed_permille,
                             request.seconds_max};
  std::string out(reinterpret_cast<const char*>(&header), sizeof(header));
  out += request.text;
  return out.size() <= sandbox::kPacketMax ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<Request> decode(std::string_view packet) {
  RequestHeader header{};
  if (packet.size() < sizeof(header)) {
    return std::nullopt;
  }
  std::memcpy(&header, packet.data(), sizeof(header));
  if (header.version != kProtocolVersion) {
    return std::nullopt;
  }
  return Request{.limits = header.limits,
                 .speaker = header.speaker,
                 .speed_permille = header.speed_permille,
                 .seconds_max = header.seconds_max,
                 .text = std::string(packet.substr(sizeof(header)))};
}

}  // namespace audiogen::onnx
