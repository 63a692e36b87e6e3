#include "worker/providers/house.h"

#include <utility>

#include "worker/local/local_provider.h"

namespace audiogen::house {
namespace {

std::unique_ptr<AudioProvider> make(const ProviderEntry& entry) {
  LocalOptions options;
  options.name = entry.name;
  options.max_in_flight = entry.max_in_flight;
  return std::make_unique<LocalProvider>(std::move(options));
}

}  // namespace

constinit const ProviderKind kKind = {
    .name = "local",
    .about = "the engine of the house: flite and espeak-ng narrate, cues are sounds",
    .max_in_flight = 256,
    .tier = kTierOfTheHouse,
    .plain = true,
    .format = &make,
};

}  // namespace audiogen::house
