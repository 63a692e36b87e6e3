#include "api/server/places.h"

namespace audiogen::api {
namespace {

template <class Map, class Whose>
std::size_t count(const Map& places, const Whose& whose) {
  const auto found = places.find(whose);
  return found == places.end() ? 0 : found->second;
}

template <class Map, class Whose>
void free_one(Map& places, const Whose& whose) {
  const auto found = places.find(whose);
  if (--found->second == 0) {
    places.erase(found);
  }
}

}  // namespace

Result<Places::Place, Places::Full> Places::take(const store::KeyRecord& key) {
  const Limits& limits = taken_->limits;
  const MutexLock lock(taken_->mutex);
  if (count(taken_->by_key, key.counted_as()) >= limits.per_key) {
    return Full::kKey;
  }
  if (count(taken_->by_user, key.user) >= limits.per_user) {
    return Full::kUser;
  }
  if (taken_->all >= limits.total) {
    return Full::kAll;
  }
  ++taken_->all;
  ++taken_->by_key[key.counted_as()];
  ++taken_->by_user[key.user];
  return Place(taken_, key);
}

void Places::Place::free() {
  const MutexLock lock(taken_->mutex);
  --taken_->all;
  free_one(taken_->by_key, key_);
  free_one(taken_->by_user, user_);
}

}  // namespace audiogen::api
