// Jobs for tests of what carries them: nobody is called for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "worker/job/job.h"

namespace audiogen::worker {

// Somebody can be called for so many.
inline constexpr std::size_t kMany = 1000;

// It was asked for so long ago.
inline JobPtr idle_job(TaskId task = TaskId::make(),
                       std::uint32_t lost_leases = 0,
                       std::chrono::seconds ago = std::chrono::seconds(0)) {
  store::Claim claim;
  claim.task = task;
  claim.lost_leases = lost_leases;
  const auto now = Job::Clock::now();
  return std::make_shared<Job>(
      Claimed{std::move(claim), nullptr},
      std::make_shared<const Chain>(std::vector<std::unique_ptr<AudioProvider>>()),
      now - ago,
      now);
}

}  // namespace audiogen::worker
