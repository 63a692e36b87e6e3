// The memory of libcurl's handles: side by side, and given back.
#include "common/http/curl_memory.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <curl/curl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace audiogen::http {
namespace {

constexpr std::size_t kSize = 5360;
constexpr std::size_t kOfABlock = Slots::kBlock / kSize;

std::vector<char*> take(Slots& slots, std::size_t count) {
  std::vector<char*> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<char*>(slots.take()));
  }
  return out;
}

TEST(Slots, LieSideBySide) {
  Slots slots(kSize);
  const auto taken = take(slots, kOfABlock + 1);
  for (std::size_t i = 0; i < kOfABlock; ++i) {
    EXPECT_EQ(taken[i], taken[0] + i * kSize);
    EXPECT_TRUE(slots.owns(taken[i]));
    std::memset(taken[i], static_cast<int>(i), kSize);
  }
  EXPECT_EQ(taken[kOfABlock], taken[0] + Slots::kBlock);
  EXPECT_EQ(slots.blocks(), 2U);
  for (std::size_t i = 0; i < kOfABlock; ++i) {
    EXPECT_EQ(std::count(taken[i], taken[i] + kSize, static_cast<char>(i)), kSize);
  }
  int other = 0;
  EXPECT_FALSE(slots.owns(&other));
  EXPECT_FALSE(slots.owns(nullptr));
}

TEST(Slots, TheFirstFreeOneIsNext) {
  Slots slots(kSize);
  const auto taken = take(slots, 3 * kOfABlock);
  slots.put(taken[2 * kOfABlock]);
  slots.put(taken[7]);
  slots.put(taken[5]);
  EXPECT_EQ(
      take(slots, 4),
      (std::vector<char*>{taken[5], taken[7], taken[2 * kOfABlock], taken[0] + 3 * Slots::kBlock}));
}

TEST(Slots, ABlockThatNobodyUsesHasNoMemory) {
  Slots slots(kSize);
  const auto taken = take(slots, 2 * kOfABlock);
  for (char* const slot : taken) {
    std::memset(slot, 1, kSize);
  }
  const auto resident = [&](std::size_t block) {
    std::vector<unsigned char> pages(Slots::kBlock / static_cast<std::size_t>(::getpagesize()));
    EXPECT_EQ(::mincore(taken[0] + block * Slots::kBlock, Slots::kBlock, pages.data()), 0);
    return std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1U) != 0; });
  };
  EXPECT_GT(resident(0), 0);
  EXPECT_GT(resident(1), 0);
  for (std::size_t i = 0; i < kOfABlock; ++i) {
    slots.put(taken[i]);
  }
  EXPECT_EQ(slots.blocks(), 1U);
  EXPECT_EQ(resident(0), 0);
  EXPECT_GT(resident(1), 0);
  EXPECT_EQ(slots.take(), taken[0]);
}

TEST(Slots, AreNotWithoutEnd) {
  Slots slots(Slots::kBlock / 4 + 1);  // Three of a block.
  const auto taken = take(slots, 3 * Slots::kReserved / Slots::kBlock);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), nullptr), 0);
  EXPECT_EQ(std::set(taken.begin(), taken.end()).size(), taken.size());
  EXPECT_EQ(slots.take(), nullptr);
  slots.put(taken.back());
  EXPECT_EQ(slots.take(), taken.back());
}

TEST(Slots, AreForManyThreads) {
  Slots slots(kSize);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&slots, t] {
      for (int round = 0; round < 50; ++round) {
        const auto mine = take(slots, 100);
        for (char* const slot : mine) {
          std::memset(slot, t, kSize);
        }
        for (char* const slot : mine) {
          EXPECT_EQ(std::count(slot, slot + kSize, static_cast<char>(t)), kSize);
          slots.put(slot);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(slots.blocks(), 0U);
}

// Handles are what the slots are for, whatever their size is in this libcurl.
TEST(CurlMemory, HandlesLieSideBySide) {
  init_curl();
  init_curl();
  std::vector<char*> handles;
  for (int i = 0; i < 100; ++i) {
    handles.push_back(static_cast<char*>(curl_easy_init()));
    ASSERT_NE(handles.back(), nullptr);
  }
  std::vector<std::ptrdiff_t> apart;
  for (std::size_t i = 1; i < handles.size(); ++i) {
    apart.push_back(handles[i] - handles[i - 1]);
  }
  // But for one or two, each of which is the first of a block.
  EXPECT_GE(std::count(apart.begin(), apart.end(), apart.front()), 90);
  EXPECT_GT(apart.front(), 0);
  for (char* const handle : handles) {
    curl_easy_cleanup(handle);
  }
  CURL* const again = curl_easy_init();
  EXPECT_EQ(again, static_cast<void*>(handles.front()));
  curl_easy_cleanup(again);
}

}  // namespace
}  // namespace audiogen::http
