#include "api/auth.h"

#include <cstring>
#include <utility>

#include "common/domain/api_key.h"

namespace audiogen::api {
namespace {

using std::chrono::steady_clock;

// Deleting a key takes effect within one second (DESIGN 1); the rest is for the lookup itself.
constexpr auto kRememberFor = std::chrono::milliseconds(800);
constexpr std::size_t kCacheMax = 100'000;
// last_used_at is for people: one write per key and minute is enough.
constexpr auto kNoteUseEvery = std::chrono::seconds(60);

}  // namespace

std::size_t Authenticator::HashOfHash::operator()(const Sha256& hash) const {
  std::size_t out = 0;
  std::memcpy(&out, hash.data(), sizeof out);
  return out;
}

std::optional<std::string_view> bearer_token(const http::Request& request) {
  constexpr std::string_view kScheme = "bearer ";
  if (request.header_count("authorization") != 1) {
    return std::nullopt;
  }
  const std::string_view value = request.header("authorization");
  if (value.size() <= kScheme.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char lower =
        value[i] >= 'A' && value[i] <= 'Z' ? static_cast<char>(value[i] - 'A' + 'a') : value[i];
    if (lower != kScheme[i]) {
      return std::nullopt;
    }
  }
  return value.substr(kScheme.size());
}

Authenticator::Authenticator(const Config& config, std::size_t lookup_threads)
    : brand_(config.brand),
      lookups_(config.database,
               {.threads = lookup_threads, .batch_max = 64, .capacity = 10'000},
               [this](store::TaskStore& store, std::span<const Sha256> hashes) {
                 auto found = store.find_keys(hashes);
                 if (!found) {
                   return found;
                 }
                 std::vector<KeyId> used;
                 const auto now = steady_clock::now();
                 {
                   const std::scoped_lock lock(used_mutex_);
                   for (const store::KeyOutcome& key : *found) {
                     if (key) {
                       auto [it, fresh] = noted_.try_emplace(key->id, now);
                       if (fresh || now - it->second > kNoteUseEvery) {
                         it->second = now;
                         used.push_back(key->id);
                       }
                     }
                   }
                   if (noted_.size() > kCacheMax) {
                     noted_.clear();
                   }
                 }
                 if (!used.empty()) {
                   static_cast<void>(
                       store.touch_keys(used));  // Only for people: a failure is not worth a 503.
                 }
                 return found;
               }) {}

std::optional<store::KeyRecord> Authenticator::recall(const Sha256& hash) {
  const auto now = steady_clock::now();
  const std::scoped_lock lock(mutex_);
  const auto it = cache_.find(hash);
  if (it == cache_.end() || now - it->second.asked_at > kRememberFor) {
    return std::nullopt;
  }
  return it->second.record;
}

void Authenticator::remember(const Sha256& hash,
                             const store::KeyRecord& record,
                             steady_clock::time_point asked_at) {
  const std::scoped_lock lock(mutex_);
  if (cache_.size() >= kCacheMax) {
    const auto now = steady_clock::now();
    std::erase_if(cache_,
                  [&](const auto& entry) { return now - entry.second.asked_at > kRememberFor; });
    if (cache_.size() >= kCacheMax) {
      return;
    }
  }
  cache_.insert_or_assign(hash, Remembered{record, asked_at});
}

void Authenticator::authenticate(const http::Request& request, bool need_access, Answer answer) {
  const auto token = bearer_token(request);
  const auto hash = token ? api_key_hash(*token, brand_) : std::nullopt;
  if (!hash) {
    answer(Verdict::kInvalid, {});
    return;
  }
  if (const auto known = recall(*hash); known && (known->api_access || !need_access)) {
    answer(Verdict::kValid, *known);
    return;
  }
  const auto asked_at = steady_clock::now();
  // Shared, not copied: a refused submit must still answer.
  auto shared = std::make_shared<Answer>(std::move(answer));
  const bool taken = lookups_.submit(
      *hash,
      [this, shared, hash = *hash, asked_at](Result<store::KeyOutcome, store::StoreFault> found) {
        if (!found) {
          (*shared)(Verdict::kUnavailable, {});
        } else if (!*found) {
          (*shared)(Verdict::kInvalid, {});
        } else {
          remember(hash, **found, asked_at);
          (*shared)(Verdict::kValid, **found);
        }
      });
  if (!taken) {
    (*shared)(Verdict::kUnavailable, {});
  }
}

void Authenticator::stop() {
  lookups_.stop();
}

}  // namespace audiogen::api
