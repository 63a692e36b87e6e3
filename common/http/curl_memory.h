// The memory of libcurl's handles: a call has one, and of thousands under way they are a third of
// the worker's memory. They are some 5 KB each, for which allocators keep rooms of 6; here they lie
// side by side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/mutex.h"

namespace audiogen::http {

// Makes libcurl ready, and has it take its handles' memory from here. Before any other function of
// libcurl; each time but the first does nothing. Thread-safe.
void init_curl();

// Slots of one size. Their addresses are reserved, so a pointer tells whether it is one; memory
// is there for the blocks in use, and what is used is kept in as few of them as possible.
// Thread-safe, never blocks for long.
class Slots {
 public:
  static constexpr std::size_t kReserved = 64U << 20U, kBlock = 256U << 10U, kStep = 16;

  // `size`: 1 to kBlock, rounded up to a multiple of kStep.
  explicit Slots(std::size_t size);
  ~Slots();
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  // Null: none is left.
  void* take();
  bool owns(const void* pointer) const;
  // One that take() gave.
  void put(void* slot);
  std::size_t size() const { return size_; }
  // Blocks that have memory.
  std::size_t blocks() const;

 private:
  static constexpr std::size_t kBlocks = kReserved / kBlock;
  struct Freed {
    Freed* next;
  };
  struct Block {
    std::uint32_t used = 0, touched = 0;  // Slots; those after `touched` have never been taken …
    Freed* freed = nullptr;               // … and these were.
  };

  std::byte* start(std::size_t block) const { return base_ + block * kBlock; }

  const std::size_t size_;
  std::byte* base_ = nullptr;  // Null: no addresses, so no slots.
  mutable Mutex mutex_;
  std::array<Block, kBlocks> blocks_ GUARDED_BY(mutex_);
  std::size_t room_from_ GUARDED_BY(mutex_) = 0;  // All blocks before it are full.
};

}  // namespace audiogen::http
