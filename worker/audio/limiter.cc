#include "worker/audio/limiter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "worker/audio/levels.h"

namespace audiogen {
namespace {

constexpr int kBlocksPerSecond = 1000;
constexpr std::size_t kAhead = 10;        // blocks
constexpr double kReleaseBlocks = 100.0;  // until 63 % of the level is back
// The filter that looks between the samples answers up to so many blocks late.
constexpr std::size_t kLate = 2;
// Between samples a wave hardly ever rises by more than so many times over them.
constexpr double kOvershootMax = 2.0;

// The true peak of each block of a millisecond.
std::optional<std::vector<double>> peaks(std::span<const float> samples, int rate) {
  TruePeakMeter meter(rate);
  const auto block = static_cast<std::size_t>(rate / kBlocksPerSecond);
  std::vector<double> out;
  out.reserve(samples.size() / block + 1);
  for (std::size_t at = 0; at < samples.size(); at += block) {
    const std::size_t count = std::min(block, samples.size() - at);
    const std::optional<double> peak = meter.add(samples.subspan(at, count));
    if (!peak) {
      return std::nullopt;
    }
    out.push_back(*peak);
  }
  return out;
}

// The level for each block: nowhere more than what any block near it bears.
std::vector<double> levels_for(const std::vector<double>& peaks, double ceiling) {
  const std::size_t count = peaks.size();
  std::vector<double> allowed(count);
  std::transform(peaks.begin(), peaks.end(), allowed.begin(), [&](double peak) {
    return peak > ceiling ? ceiling / peak : 1.0;
  });
  // Falls at once, as soon as a peak is ahead, and comes back slowly.
  std::vector<double> held(count);
  const double back = 1 - std::exp(-1 / kReleaseBlocks);
  double level = 1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto from = allowed.begin() + static_cast<std::ptrdiff_t>(i - std::min(i, kLate));
    const auto to =
        allowed.begin() + static_cast<std::ptrdiff_t>(std::min(count, i + kAhead + kLate + 1));
    level = std::min(level + (1 - level) * back, *std::min_element(from, to));
    held[i] = level;
  }
  // The mean of the blocks before makes the fall a slope, which has arrived when the peak comes.
  std::vector<double> out(count);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += held[i] - (i > kAhead ? held[i - kAhead - 1] : 0);
    out[i] = i == 0 ? held[0] : sum / static_cast<double>(std::min(i, kAhead) + 1);
  }
  return out;
}

}  // namespace

bool limit_peaks(std::span<float> samples, int rate, double ceiling) {
  if (static_cast<double>(peak_of(samples)) * kOvershootMax <= ceiling) {
    return true;
  }
  const std::optional<std::vector<double>> found = peaks(samples, rate);
  if (!found) {
    return false;
  }
  if (std::all_of(found->begin(), found->end(), [&](double peak) { return peak <= ceiling; })) {
    return true;
  }
  const std::vector<double> levels = levels_for(*found, ceiling);
  // From the middle of a block to that of the next in a straight line.
  const double block = rate / kBlocksPerSecond;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double at = std::max(0.0, (static_cast<double>(i) + 0.5) / block - 0.5);
    const auto before = std::min(static_cast<std::size_t>(at), levels.size() - 1);
    const std::size_t after = std::min(before + 1, levels.size() - 1);
    const double part = at - static_cast<double>(before);
    samples[i] *= static_cast<float>(levels[before] + (levels[after] - levels[before]) * part);
  }
  return true;
}

}  // namespace audiogen
