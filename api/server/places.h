// Places that calls hold while they last, because they keep a connection for long: so many of a
// key, of a user with all of his keys, and of all together.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/result.h"
#include "common/store/commands.h"

namespace audiogen::api {

class Places {
 public:
  struct Limits {
    std::size_t total = 1'000;
    std::size_t per_key = 20;
    std::size_t per_user = 100;
  };
  // Who has all that he may.
  enum class Full { kKey, kUser, kAll };

  // One of them, until it is destroyed. May outlive the Places.
  class Place;

  explicit Places(Limits limits) : taken_(std::make_shared<Taken>(limits)) {}

  // Any thread.
  Result<Place, Full> take(const store::KeyRecord& key);

 private:
  struct Taken {
    explicit Taken(Limits most) : limits(most) {}
    const Limits limits;
    Mutex mutex;
    std::size_t all GUARDED_BY(mutex) = 0;
    std::unordered_map<Uuid, std::size_t> by_key GUARDED_BY(mutex);  // By KeyRecord::counted_as().
    std::unordered_map<UserId, std::size_t> by_user GUARDED_BY(mutex);
  };

  std::shared_ptr<Taken> taken_;
};

class Places::Place {
 public:
  Place(Place&&) noexcept = default;
  Place& operator=(Place&&) = delete;
  ~Place() {
    if (taken_) {
      free();
    }
  }

 private:
  friend class Places;
  Place(std::shared_ptr<Taken> taken, const store::KeyRecord& key)
      : taken_(std::move(taken)), key_(key.counted_as()), user_(key.user) {}
  void free();

  std::shared_ptr<Taken> taken_;
  Uuid key_;
  UserId user_;
};

}  // namespace audiogen::api
