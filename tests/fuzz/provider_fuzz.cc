// Any bytes as an answer of each provider: refused or audio, never a crash, and no word of it in
// the detail. The first byte chooses the provider, the second the status.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "worker/providers/elevenlabs.h"
#include "worker/providers/fal.h"
#include "worker/providers/openai.h"
#include "worker/providers/replicate.h"
#include "worker/providers/seed_audio.h"
#include "worker/providers/wire.h"

using namespace audiogen;  // NOLINT(google-build-using-namespace): a program of one function.

namespace {

void check(const ProviderFault& fault) {
  AG_CHECK(fault.detail.size() <= wire::kDetailMax);
  for (const char c : fault.detail) {
    AG_CHECK(c >= ' ');
    AG_CHECK(c <= '~');
  }
}

void check(const Result<Audio, ProviderFault>& result) {
  if (result) {
    AG_CHECK(!result->bytes.empty());
  } else {
    check(result.error());
  }
}

void check(const Progress& progress) {
  if (const auto* const fault = std::get_if<ProviderFault>(&progress)) {
    check(*fault);
  }
}

void check(const PolledFormat& format, const http::ClientResponse& response) {
  check(format.status(response));
  check(format.result(response));
  if (const auto ticket = format.submitted(response)) {
    wire::same_origin("https://queue.fal.run", ticket->status_url);
  } else {
    check(ticket.error());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::array<int, 8> kStatuses = {200, 202, 400, 401, 422, 429, 500, 504};
  if (size < 2) {
    return 0;
  }
  http::ClientResponse response;
  response.status = kStatuses[data[1] % kStatuses.size()];
  response.body.assign(reinterpret_cast<const char*>(data) + 2, size - 2);
  response.headers = {{"retry-after", response.body.substr(0, 40)},
                      {"x-tt-logid", response.body.substr(0, 100)}};
  ProviderEntry entry;
  entry.response_format = "pcm_24000";
  const GenerationRequest request;
  switch (data[0] % 5) {
    case 0:
      check(openai::read(entry, request, std::move(response)));
      break;
    case 1:
      check(elevenlabs::read(entry, request, std::move(response)));
      break;
    case 2:
      check(seed_audio::read(entry, request, std::move(response)));
      break;
    case 3:
      check(*fal::format(), response);
      break;
    default:
      check(*replicate::format(), response);
  }
  return 0;
}
