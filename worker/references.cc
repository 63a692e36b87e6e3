#include "worker/references.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include <curl/curl.h>

#include "common/domain/public_url.h"

namespace audiogen::worker {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = ReferenceFault::Kind;

constexpr auto kConnectTimeout = std::chrono::seconds(3);
constexpr auto kTotalTimeout = std::chrono::seconds(20);
constexpr auto kRetryPause = std::chrono::seconds(1);
constexpr int kTriesMax = 2;

struct CloseUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct FreeText {
  void operator()(char* text) const { curl_free(text); }
};

// What `location` means on the page `base` (RFC 3986 section 5).
std::optional<std::string> resolve(const std::string& base, std::string_view location) {
  const std::unique_ptr<CURLU, CloseUrl> url(curl_url());
  char* text = nullptr;
  if (!url || curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK ||
      curl_url_set(url.get(), CURLUPART_URL, std::string(location).c_str(), 0) != CURLUE_OK ||
      curl_url_get(url.get(), CURLUPART_URL, &text, 0) != CURLUE_OK) {
    return std::nullopt;
  }
  return std::string(std::unique_ptr<char, FreeText>(text).get());
}

bool is_redirect(int status) {
  constexpr std::array<int, 5> kStatuses = {301, 302, 303, 307, 308};
  return std::find(kStatuses.begin(), kStatuses.end(), status) != kStatuses.end();
}

// Worth asking once more.
bool may_pass(int status) {
  return status == 408 || status == 429 || status >= 500;
}

std::string_view reason_of(MediaFault fault, bool image) {
  switch (fault) {
    case MediaFault::kNotThisKind:
      return image ? "it is not a PNG, JPEG or WebP image"
                   : "it is not a WAV, MP3, Ogg or FLAC file";
    case MediaFault::kUndecodable:
      return "it is damaged and cannot be decoded";
    case MediaFault::kTooShort:
      return "it is shorter than 0.5 seconds";
    case MediaFault::kTooLong:
      return "it is longer than 30 seconds";
    case MediaFault::kSilent:
      return "it is silent";
    case MediaFault::kTooManyChannels:
      return "it has more than two channels";
    case MediaFault::kTooLarge:
      return "it is larger than 8192 pixels a side or 40 megapixels";
    case MediaFault::kUnavailable:
      break;
  }
  return "it could not be examined";
}

std::string_view reason_of(const http::ClientError& error) {
  switch (error.fault) {
    case http::ClientFault::kForbidden:
      return "its address is not public";
    case http::ClientFault::kTooLarge:
      return "it is larger than 10 MB";
    case http::ClientFault::kNotSent:
      return "its server could not be reached";
    case http::ClientFault::kUnknown:
    case http::ClientFault::kCanceled:
      break;
  }
  return "its server did not deliver it in time";
}

// One thing the request refers to.
struct Item {
  std::string member;  // as the request names it
  std::string url;     // moves along with redirects
  bool image = false;
  int redirects = 0;
  int tries = 0;
  std::string bytes{};
  std::shared_ptr<http::ClientCall> exchange{};
};

std::vector<Item> items_of(const GenerationRequest& request) {
  std::vector<Item> out;
  for (std::size_t i = 0; i < request.audio_references.size(); ++i) {
    out.push_back({.member = "audio_references[" + std::to_string(i) + "]",
                   .url = request.audio_references[i]});
  }
  if (request.image_url) {
    out.push_back({.member = "image_url", .url = *request.image_url, .image = true});
  }
  return out;
}

}  // namespace

std::string reference_message(std::string_view member, std::string_view reason) {
  return std::string(member) + " cannot be used: " + std::string(reason) + ".";
}

// Who is open, and the memory set aside for what they fetch.
struct ReferenceFetcher::Budget {
  std::mutex mutex;
  std::condition_variable ended;
  std::unordered_set<std::shared_ptr<Fetch>> open;  // Guarded by mutex.
  std::deque<std::shared_ptr<Fetch>> waiting;       // Guarded by mutex; open ones.
  std::size_t used = 0;                             // Guarded by mutex.

  void admit(const std::shared_ptr<Fetch>& fetch);
  // Gives `bytes` back, so that the next ones may begin.
  void release(std::size_t bytes);
  // Takes whom there is room for from `waiting`. A lock is held.
  std::vector<std::shared_ptr<Fetch>> next();
};

// Everything but cancel() and inspect() happens on the client's thread.
struct ReferenceFetcher::Fetch final : ProviderCall, std::enable_shared_from_this<Fetch> {
  Fetch(
      ReferenceFetcher& of, std::vector<Item> what, bool keep, Clock::time_point until, Done reply)
      : fetcher(of),
        budget(of.budget_),
        keep_bytes(keep),
        deadline(until),
        items(std::move(what)),
        missing(items.size()),
        done(std::move(reply)) {}

  void cancel() override {
    canceled = true;
    // Not needed once it has ended, and the client may be gone by then.
    const std::scoped_lock lock(budget->mutex);
    if (budget->open.count(shared_from_this()) > 0) {
      fetcher.client_.after(std::chrono::milliseconds(0), [self = shared_from_this()] {
        self->fail({Kind::kCanceled, "canceled"});
      });
    }
  }

  void begin() {
    fetcher.client_.after(std::chrono::milliseconds(0), [self = shared_from_this()] {
      for (Item& item : self->items) {
        if (!self->finished) {
          self->ask(item);
        }
      }
    });
  }

  void ask(Item& item) {
    const auto rest =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    const auto allowed = fetcher.reach_ == http::Reach::kPublicOnly ? check_public_url(item.url)
                                                                    : check_any_url(item.url);
    if (!allowed) {
      unusable(item, "its address is not public");
      return;
    }
    if (rest.count() <= 0 || canceled) {
      fail({Kind::kCanceled, "out of time"});
      return;
    }
    ++item.tries;
    http::ClientRequest request;
    request.url = item.url;
    request.headers = {item.image ? "Accept: image/*" : "Accept: audio/*, application/ogg"};
    request.reach = fetcher.reach_;
    request.connect_timeout = std::min<std::chrono::milliseconds>(kConnectTimeout, rest);
    request.total_timeout = std::min<std::chrono::milliseconds>(kTotalTimeout, rest);
    request.body_max = kBytesEach;
    item.exchange = fetcher.client_.start(
        std::move(request),
        [self = shared_from_this(), &item](Result<http::ClientResponse, http::ClientError> answer) {
          if (!self->finished) {
            item.exchange.reset();
            self->heard(item, std::move(answer));
          }
        });
  }

  void heard(Item& item, Result<http::ClientResponse, http::ClientError> answer) {
    if (!answer) {
      const auto fault = answer.error().fault;
      if (fault == http::ClientFault::kForbidden || fault == http::ClientFault::kTooLarge) {
        unusable(item, reason_of(answer.error()));
      } else {
        again_or(item, reason_of(answer.error()));
      }
      return;
    }
    if (is_redirect(answer->status)) {
      const auto target = resolve(item.url, answer->header("location"));
      if (!target || ++item.redirects > kRedirectsMax) {
        unusable(item, "its server redirects too often or to nowhere");
        return;
      }
      item.url = *target;
      item.tries = 0;
      ask(item);
      return;
    }
    if (answer->status != 200) {
      const std::string reason = "its server answered " + std::to_string(answer->status);
      if (may_pass(answer->status)) {
        again_or(item, reason);
      } else {
        unusable(item, reason);
      }
      return;
    }
    item.bytes = std::move(answer->body);
    if (--missing == 0) {
      finished = true;  // Of the client's part.
      if (!fetcher.codecs_.post([self = shared_from_this()] { self->inspect(); })) {
        end(ReferenceFault{Kind::kOurs, "codec pool full"});
      }
    }
  }

  void again_or(Item& item, std::string_view reason) {
    if (item.tries >= kTriesMax || Clock::now() + kRetryPause >= deadline) {
      unusable(item, reason);
      return;
    }
    fetcher.client_.after(kRetryPause, [self = shared_from_this(), &item] {
      if (!self->finished) {
        self->ask(item);
      }
    });
  }

  void unusable(const Item& item, std::string_view reason) {
    fail({Kind::kUnusable, reference_message(item.member, reason)});
  }

  void fail(ReferenceFault fault) {
    if (finished) {
      return;
    }
    finished = true;
    for (Item& item : items) {
      if (item.exchange) {
        item.exchange->cancel();
      }
    }
    end(std::move(fault));
  }

  // On the pool.
  void inspect() {
    auto found = std::make_unique<audiogen::References>();
    std::optional<ReferenceFault> fault;
    const auto refuse = [&](const Item& item, MediaFault why) {
      fault = ReferenceFault{why == MediaFault::kUnavailable ? Kind::kOurs : Kind::kUnusable,
                             reference_message(item.member, reason_of(why, item.image))};
    };
    for (Item& item : items) {
      if (canceled) {
        fault = ReferenceFault{Kind::kCanceled, "canceled"};
      } else if (item.image) {
        auto image = inspect_image_reference(std::move(item.bytes), fetcher.decoder_);
        image ? void(found->image = std::move(*image)) : refuse(item, image.error());
      } else {
        auto sound = inspect_audio_reference(std::move(item.bytes), fetcher.decoder_);
        sound ? found->sounds.push_back(std::move(*sound)) : refuse(item, sound.error());
      }
      if (fault) {
        end(std::move(*fault));
        return;
      }
    }
    std::size_t kept = 0;
    const auto keep_or_drop = [&](std::string& bytes) {
      if (!keep_bytes) {
        std::string().swap(bytes);
      }
      kept += bytes.size();
    };
    for (AudioReference& sound : found->sounds) {
      keep_or_drop(sound.bytes);
    }
    if (found->image) {
      keep_or_drop(found->image->bytes);
    }
    budget->release(std::exchange(share, 0) - kept);
    end(References(found.release(), [budget = budget, kept](const audiogen::References* all) {
      delete all;
      budget->release(kept);
    }));
  }

  void end(Result<References, ReferenceFault> result) {
    const Done reply = std::move(done);
    reply(std::move(result));
    std::size_t unused = 0;
    {
      // Only now: the fetcher's destructor waits for this.
      const std::scoped_lock lock(budget->mutex);
      std::erase(budget->waiting, shared_from_this());
      unused = std::exchange(share, 0);
      budget->open.erase(shared_from_this());
      budget->ended.notify_all();
    }
    items.clear();
    budget->release(unused);
  }

  ReferenceFetcher& fetcher;  // There as long as the fetch is open.
  const std::shared_ptr<Budget> budget;
  const bool keep_bytes;
  const Clock::time_point deadline;
  std::vector<Item> items;
  std::size_t missing;
  std::size_t share = 0;  // Of the budget.
  Done done;
  bool finished = false;
  std::atomic<bool> canceled{false};
};

void ReferenceFetcher::Budget::admit(const std::shared_ptr<Fetch>& fetch) {
  std::vector<std::shared_ptr<Fetch>> ready;
  {
    const std::scoped_lock lock(mutex);
    open.insert(fetch);
    waiting.push_back(fetch);
    ready = next();
  }
  for (const auto& one : ready) {
    one->begin();
  }
}

void ReferenceFetcher::Budget::release(std::size_t bytes) {
  std::vector<std::shared_ptr<Fetch>> ready;
  {
    const std::scoped_lock lock(mutex);
    used -= bytes;
    ready = next();
  }
  for (const auto& one : ready) {
    one->begin();
  }
}

std::vector<std::shared_ptr<ReferenceFetcher::Fetch>> ReferenceFetcher::Budget::next() {
  std::vector<std::shared_ptr<Fetch>> out;
  while (!waiting.empty()) {
    const std::size_t needed = waiting.front()->items.size() * kBytesEach;
    if (used > 0 && used + needed > kBytesAtOnce) {
      break;
    }
    used += needed;
    waiting.front()->share = needed;
    out.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
  return out;
}

ReferenceFetcher::ReferenceFetcher(http::Client& client,
                                   Decoder& decoder,
                                   Pool& codecs,
                                   http::Reach reach)
    : client_(client),
      decoder_(decoder),
      codecs_(codecs),
      reach_(reach),
      budget_(std::make_shared<Budget>()) {}

ReferenceFetcher::~ReferenceFetcher() {
  std::vector<std::shared_ptr<Fetch>> open;
  {
    const std::scoped_lock lock(budget_->mutex);
    open.assign(budget_->open.begin(), budget_->open.end());
  }
  for (const auto& fetch : open) {
    fetch->cancel();
  }
  std::unique_lock lock(budget_->mutex);
  budget_->ended.wait(lock, [this] { return budget_->open.empty(); });
}

std::shared_ptr<ProviderCall> ReferenceFetcher::fetch(
    std::shared_ptr<const GenerationRequest> request,
    bool keep_bytes,
    std::chrono::steady_clock::time_point deadline,
    Done done) {
  auto fetch =
      std::make_shared<Fetch>(*this, items_of(*request), keep_bytes, deadline, std::move(done));
  budget_->admit(fetch);
  return fetch;
}

}  // namespace audiogen::worker
