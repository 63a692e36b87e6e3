#include "common/http/curl_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <curl/curl.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#include <sys/mman.h>

#include "common/base/check.h"

namespace audiogen::http {
namespace {

// Written by init_curl() alone. The largest piece that is asked for while the first handle is made
// is the handle.
bool learning = false;
std::size_t largest = 0;
// For ever: a handle may be the last that is destroyed.
Slots* handles = nullptr;

// Null: it is none of a handle, or none is left.
void* slot_for(std::size_t size) {
  if (learning) {
    largest = std::max(largest, size);
  }
  return handles != nullptr && size <= handles->size() && size + Slots::kStep > handles->size()
             ? handles->take()
             : nullptr;
}

bool is_slot(const void* pointer) {
  return handles != nullptr && handles->owns(pointer);
}

void* get(std::size_t size) {
  void* const slot = slot_for(size);
  return slot != nullptr ? slot : std::malloc(size);
}

void* get_cleared(std::size_t count, std::size_t size) {
  void* const slot = count == 1 ? slot_for(size) : nullptr;
  return slot != nullptr ? std::memset(slot, 0, size) : std::calloc(count, size);
}

void* get_again(void* pointer, std::size_t size) {
  if (!is_slot(pointer)) {
    return std::realloc(pointer, size);
  }
  void* const out = std::malloc(size);
  if (out != nullptr) {
    std::memcpy(out, pointer, std::min(size, handles->size()));
    handles->put(pointer);
  }
  return out;
}

void give_back(void* pointer) {
  if (is_slot(pointer)) {
    handles->put(pointer);
  } else {
    std::free(pointer);
  }
}

}  // namespace

void init_curl() {
  static std::once_flag once;
  std::call_once(once, [] {
    learning = true;
    AG_CHECK(curl_global_init_mem(
                 CURL_GLOBAL_DEFAULT, get, give_back, get_again, ::strdup, get_cleared) ==
             CURLE_OK);
    CURL* const first = curl_easy_init();
    AG_CHECK(first != nullptr);
    curl_easy_cleanup(first);
    learning = false;
    handles = std::make_unique<Slots>(std::min(largest, Slots::kBlock)).release();
  });
}

Slots::Slots(std::size_t size) : size_((size + kStep - 1) / kStep * kStep) {
  AG_CHECK(size > 0 && size_ <= kBlock);
  void* const at =
      ::mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  base_ = at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
#if defined(__SANITIZE_ADDRESS__)
  __lsan_register_root_region(base_, kReserved);  // What a handle has is no leak.
#endif
}

Slots::~Slots() {
  if (base_ == nullptr) {
    return;
  }
#if defined(__SANITIZE_ADDRESS__)
  __lsan_unregister_root_region(base_, kReserved);
#endif
  ASAN_UNPOISON_MEMORY_REGION(base_, kReserved);
  ::munmap(base_, kReserved);
}

void* Slots::take() {
  const MutexLock lock(mutex_);
  const std::size_t all = kBlock / size_;
  while (room_from_ < kBlocks && blocks_[room_from_].used == all) {
    ++room_from_;
  }
  if (base_ == nullptr || room_from_ == kBlocks) {
    return nullptr;
  }
  Block& block = blocks_[room_from_];
  if (block.used == 0 && ::mprotect(start(room_from_), kBlock, PROT_READ | PROT_WRITE) != 0) {
    return nullptr;
  }
  ++block.used;
  void* slot = nullptr;
  if (block.freed != nullptr) {
    slot = std::exchange(block.freed, block.freed->next);
  } else {
    slot = start(room_from_) + size_ * block.touched++;
  }
  ASAN_UNPOISON_MEMORY_REGION(slot, size_);
  return slot;
}

bool Slots::owns(const void* pointer) const {
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const auto from = reinterpret_cast<std::uintptr_t>(base_);
  return base_ != nullptr && at >= from && at < from + kReserved;
}

void Slots::put(void* slot) {
  const MutexLock lock(mutex_);
  const auto at = static_cast<std::size_t>(static_cast<std::byte*>(slot) - base_) / kBlock;
  Block& block = blocks_[at];
  room_from_ = std::min(room_from_, at);
  block.freed = new (slot) Freed{block.freed};
  ASAN_POISON_MEMORY_REGION(block.freed + 1, size_ - sizeof(Freed));
  if (--block.used == 0) {
    block = {};
    // Its memory goes; where the kernel refuses that, it is used again as it is.
    ::madvise(start(at), kBlock, MADV_DONTNEED);
  }
}

std::size_t Slots::blocks() const {
  const MutexLock lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      blocks_.begin(), blocks_.end(), [](const Block& block) { return block.used > 0; }));
}

}  // namespace audiogen::http
