// Samples of the preset voices, made the way every customer's audio is made: a creation by a key,
// status reads, the file from where files are delivered. So whatever speaks for customers, a
// provider or the engine here, speaks for the samples, wherever the file lies, and no other way
// through the service has to be kept right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/catalogue/previews.h"

namespace audiogen::api {

struct PreviewOrder {
  std::string url;         // Where this program reaches the service, without /api/v1.
  std::string public_url;  // Where addresses of its files may begin instead.
  std::string key;         // Pays.
  std::string model;
};

struct PreviewMade {
  std::string voice;    // Its id.
  std::string why_not;  // Empty: it is kept.
};

// Has a sample of each of `wanted` made, all at the same time, and keeps each as soon as it is
// there. Blocks, for some ten minutes at most.
std::vector<PreviewMade> make_previews(const PreviewOrder& order,
                                       const VoicePreviews& previews,
                                       const std::vector<std::string_view>& wanted);

}  // namespace audiogen::api
