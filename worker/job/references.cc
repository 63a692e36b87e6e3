#include "worker/job/references.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <curl/curl.h>

#include "common/base/ascii.h"
#include "common/base/mutex.h"
#include "common/domain/public_url.h"
#include "common/http/redirect.h"
#include "worker/job/byte_share.h"
#include "worker/job/spool.h"

namespace audiogen::worker {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = ReferenceFault::Kind;

constexpr auto kConnectTimeout = std::chrono::seconds(3);
constexpr std::uint32_t kSlowBytes = 4096;  // A second: see ReferenceLimits.
constexpr auto kRetryPause = std::chrono::seconds(1);
constexpr int kReferenceTriesMax = 2;
// Shares of one user and of one host: see ReferenceLimits.
constexpr std::size_t kUserShare = 4, kHostShare = 2, kHostUserShare = 2;
constexpr std::size_t kFilesMax = 3;  // of one task
constexpr std::size_t kFewOpen = 2;   // of one user: see ReferenceLimits::waiting_max
// How those too many come back: not before the first, and one user's not faster than the second,
// so that thousands of them are no load on the database.
constexpr auto kComeBackAfter = std::chrono::seconds(2);
constexpr auto kComeBackGap = std::chrono::milliseconds(10);
// One text for what is not public and what cannot be reached: the difference would tell a client
// what there is in our network.
constexpr std::string_view kNotFetched = "it could not be fetched from a public address";
constexpr std::string_view kLate = "its server did not deliver it in time";

struct CloseUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct FreeText {
  void operator()(char* text) const { curl_free(text); }
};

// Host and port, as a key; "" when there is none.
std::string host_of(const std::string& address) {
  const std::unique_ptr<CURLU, CloseUrl> url(curl_url());
  std::string out;
  if (!url || curl_url_set(url.get(), CURLUPART_URL, address.c_str(), 0) != CURLUE_OK) {
    return out;
  }
  for (const CURLUPart part : {CURLUPART_HOST, CURLUPART_PORT}) {
    char* text = nullptr;
    if (curl_url_get(url.get(), part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) {
      return "";
    }
    out += ':';
    out += std::unique_ptr<char, FreeText>(text).get();
  }
  return ascii::lower(out);
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
    case MediaFault::kRate:
      return "its sample rate is not between 8 and 96 kHz";
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
    case http::ClientFault::kNotSent:
      return kNotFetched;
    case http::ClientFault::kTooLarge:
      return "it is larger than 10 MB";
    case http::ClientFault::kUnknown:
    case http::ClientFault::kCanceled:
      break;
  }
  return kLate;
}

// One thing the request refers to.
struct Item {
  std::string member;  // as the request names it
  std::string url;     // moves along with redirects
  Spool bytes;
  bool image = false;
  int redirects = 0;
  int failures = 0;
  std::string host{};    // of `url`
  bool starved = false;  // it was left unread for want of room: its time says nothing of its server
  std::shared_ptr<http::ClientCall> exchange{};
};

std::vector<Item> items_of(const GenerationRequest& request, const std::string& folder) {
  std::vector<Item> out;
  const auto add = [&](std::string member, const std::string& url, bool image) {
    out.push_back({.member = std::move(member),
                   .url = url,
                   .bytes = Spool(folder),
                   .image = image,
                   .host = host_of(url)});
  };
  for (std::size_t i = 0; i < request.audio_references.size(); ++i) {
    add("audio_references[" + std::to_string(i) + "]", request.audio_references[i], false);
  }
  if (request.image_url) {
    add("image_url", *request.image_url, true);
  }
  return out;
}

}  // namespace

std::string reference_message(std::string_view member, std::string_view reason) {
  return std::string(member) + " cannot be used: " + std::string(reason) + ".";
}

ReferenceLimits reference_limits(const Config& config) {
  constexpr std::size_t kFewest = 8, kMost = 64;
  const auto in_flight = static_cast<std::size_t>(config.worker_in_flight);
  return {.bytes_max = static_cast<std::size_t>(config.references_max_mb) << 20U,
          .tasks_max = std::clamp(in_flight / 4, kFewest, kMost),
          .waiting_max = std::max(in_flight * 2, kFewest),
          .time_max = std::chrono::seconds(config.references_seconds),
          .folder = config.references_folder};
}

// Who is open, and what they hold. Numbers of fetches grow with their age.
struct ReferenceFetcher::Budget {
  struct User {
    std::size_t open = 0;                                // waiting or begun
    std::set<std::uint64_t> begun;                       // their numbers
    std::unordered_map<std::string, std::size_t> hosts;  // files asked for, by host
    std::deque<std::shared_ptr<Fetch>> inspections;      // the first is under way
    ByteShare share;
    Clock::time_point next_come_back = Clock::time_point::min();  // of the last one refused
  };

  explicit Budget(ReferenceLimits with) : limits(std::move(with)) {}

  const ReferenceLimits limits;
  Mutex mutex;
  ConditionVariable ended;
  std::unordered_set<std::shared_ptr<Fetch>> open GUARDED_BY(mutex);
  std::deque<std::shared_ptr<Fetch>> waiting GUARDED_BY(mutex);  // Open ones.
  std::set<std::uint64_t> begun GUARDED_BY(mutex);
  std::map<UserId, User> users GUARDED_BY(mutex);
  // Files asked for, of each user no more than its share. (Only redirects, which
  // wait for nobody, get a user above it.)
  std::unordered_map<std::string, std::size_t> hosts GUARDED_BY(mutex);
  std::vector<std::shared_ptr<http::ClientCall>> starved GUARDED_BY(mutex);
  ByteShare all GUARDED_BY(mutex);
  // Those under way that wait for what results of their own users keep.
  std::set<std::uint64_t> without_share GUARDED_BY(mutex);
  std::uint64_t last_number GUARDED_BY(mutex) = 0;

  std::size_t tasks_each() const { return std::max<std::size_t>(limits.tasks_max / kUserShare, 1); }
  std::size_t waiting_each() const {
    return std::max<std::size_t>(limits.waiting_max / kUserShare, 1);
  }
  std::size_t files_per_host() const {
    return std::max(limits.tasks_max / kHostShare, kFilesMax * kHostUserShare);
  }
  std::size_t files_per_host_each() const { return files_per_host() / kHostUserShare; }

  // Nullopt: it waits for its turn. Else it is refused, and may come back after so long.
  std::optional<std::chrono::milliseconds> admit(const std::shared_ptr<Fetch>& fetch);
  // Is there room for `more` received bytes? Else `call` goes on when there may be. The oldest of
  // all that are fetched, of those whose user has room for them, may go on whatever the others
  // have, and of the files of one user the oldest: of several that stop half-way nobody would ever
  // end. Not whatever results keep: these end without it, and are as many as there are jobs. While
  // the oldest waits for them nobody else takes anything.
  bool take(Fetch& fetch, std::size_t more, const std::shared_ptr<http::ClientCall>& call);
  void give_back(const UserId& user, std::size_t fewer);
  // Nothing of this one waits to be taken just now: it begins anew.
  void rest(const Fetch& fetch);
  // So many of the bytes are a result's now, until they are let go.
  void keep(const UserId& user, std::size_t of_them);
  void let_go(const UserId& user, std::size_t of_them);
  // A file of `user` is asked for at another host now.
  void move_host(const UserId& user, std::string& from, std::string to);
  // True when `fetch` may be inspected now. Else it waits until next_inspection() gives it: a user
  // has one inspection at a time in the pool, so that what many of one user take is not before
  // everybody else's.
  bool may_inspect(const std::shared_ptr<Fetch>& fetch);
  // The inspection under way of this user has ended: the next one; null: there is none.
  std::shared_ptr<Fetch> next_inspection(const UserId& user);
  void leave(const std::shared_ptr<Fetch>& fetch);

 private:
  using Calls = std::vector<std::shared_ptr<http::ClientCall>>;

  void forget_if_idle(const UserId& user) LOCKS_REQUIRED(mutex);
  bool may_begin(const Fetch& fetch) LOCKS_REQUIRED(mutex);
  // Of those under way whose user has room for them; 0: there is none.
  std::uint64_t oldest() const LOCKS_REQUIRED(mutex);
  void add_file(User& user, const std::string& host) LOCKS_REQUIRED(mutex);
  void drop_file(User& user, const std::string& host) LOCKS_REQUIRED(mutex);
  // Begins whom there is room for: after anything was given back. Those who starved are to go on,
  // see feed(), once the mutex is free.
  Calls look_again() LOCKS_REQUIRED(mutex);
  static void feed(const Calls& hungry);
};

// Everything but cancel() and inspect() happens on the client's thread.
struct ReferenceFetcher::Fetch final : ProviderCall, std::enable_shared_from_this<Fetch> {
  Fetch(ReferenceFetcher& of,
        const UserId& whose,
        std::vector<Item> what,
        bool keep,
        Clock::time_point until,
        Done reply)
      : fetcher(of),
        budget(of.budget_),
        user(whose),
        keep_bytes(keep),
        deadline(until),
        items(std::move(what)),
        missing(items.size()),
        done(std::move(reply)) {}

  void cancel() override {
    canceled = true;
    end_soon({.kind = Kind::kCanceled, .message = "canceled"});
  }

  bool waits() const override {
    const MutexLock lock(budget->mutex);
    return std::any_of(budget->waiting.begin(), budget->waiting.end(), [this](const auto& fetch) {
      return fetch.get() == this;
    });
  }

  void end_soon(ReferenceFault fault) {
    // Not needed once it has ended, and the client may be gone by then.
    const MutexLock lock(budget->mutex);
    if (budget->open.count(shared_from_this()) > 0) {
      fetcher.client_.after(
          std::chrono::milliseconds(0),
          [self = shared_from_this(), fault = std::move(fault)] { self->fail(fault); });
    }
  }

  void begin() {
    fetcher.client_.after(std::chrono::milliseconds(0), [self = shared_from_this()] {
      const auto whole = self->budget->limits.time_max;
      const auto now = Clock::now();
      // The wait for its turn took time that it would have had.
      self->held_up = self->deadline - now < whole &&
                      (self->deadline - self->came_at >= whole || self->deadline <= now);
      self->deadline = std::min(self->deadline, now + whole);
      for (std::size_t i = 0; i < self->items.size(); ++i) {  // None are left when one fails.
        self->ask(self->items[i]);
      }
    });
  }

  void ask(Item& item) {
    const auto rest =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    const auto allowed = fetcher.reach_ == http::Reach::kPublicOnly ? check_public_url(item.url)
                                                                    : check_any_url(item.url);
    if (!allowed) {
      unusable(item, kNotFetched, "the address " + allowed.error().message);
      return;
    }
    if (canceled) {
      fail({.kind = Kind::kCanceled, .message = "canceled"});
      return;
    }
    if (rest.count() <= 0) {
      late(item, "out of time");
      return;
    }
    http::ClientRequest request;
    request.url = item.url;
    request.headers = {item.image ? "Accept: image/*" : "Accept: audio/*, application/ogg"};
    request.reach = fetcher.reach_;
    request.connect_timeout = std::min<std::chrono::milliseconds>(kConnectTimeout, rest);
    request.total_timeout = rest;
    request.body_max = kBytesEach;
    request.slow_bytes = kSlowBytes;
    request.slow_for = budget->limits.slow_for;
    request.take_body = [self = shared_from_this(), &item](std::string_view part) {
      return self->finished ? http::BodyPart::kRefused : self->take(item, part);
    };
    item.exchange = fetcher.client_.start(
        std::move(request),
        [self = shared_from_this(), &item](Result<http::ClientResponse, http::ClientError> answer) {
          if (!self->finished) {
            item.exchange.reset();
            self->heard(item, std::move(answer));
          }
        });
  }

  http::BodyPart take(Item& item, std::string_view part) {
    if (!budget->take(*this, part.size(), item.exchange)) {
      item.starved = true;
      return http::BodyPart::kLater;
    }
    held += part.size();
    if (!item.bytes.append(part)) {
      fail({.kind = Kind::kOurs, .message = "the disk is full or gone"});
      return http::BodyPart::kRefused;
    }
    return http::BodyPart::kTaken;
  }

  void heard(Item& item, Result<http::ClientResponse, http::ClientError> answer) {
    if (!answer) {
      const http::ClientError& error = answer.error();
      if (error.fault == http::ClientFault::kTooLarge) {
        unusable(item, reason_of(error), error.detail);
      } else if (error.fault == http::ClientFault::kUnknown && (item.starved || held_up)) {
        late(item, describe(error));
      } else {
        // An address that is not public is asked for once more like one that is not there: the time
        // it takes tells no more than the text.
        again_or(item, reason_of(error), describe(error));
      }
      return;
    }
    if (http::is_redirect(answer->status)) {
      auto target = http::redirect_target(item.url, *answer);
      if (!target || ++item.redirects > http::kRedirectsMax) {
        unusable(item, "its server redirects too often or to nowhere", "");
        return;
      }
      item.url = std::move(*target);
      budget->rest(*this);
      budget->move_host(user, item.host, host_of(item.url));
      ask(item);
      return;
    }
    if (answer->status != 200) {
      const std::string reason = "its server answered " + std::to_string(answer->status);
      if (may_pass(answer->status)) {
        again_or(item, reason, "");
      } else {
        unusable(item, reason, "");
      }
      return;
    }
    if (--missing == 0) {
      finished = true;  // Of the client's part.
      if (budget->may_inspect(shared_from_this())) {
        post_inspection();
      }
    }
  }

  void post_inspection() {
    if (!fetcher.inspectors_.post([self = shared_from_this()] { self->inspect(); })) {
      end_inspection(ReferenceFault{.kind = Kind::kOurs, .message = "codec pool full"});
    }
  }

  void end_inspection(Result<References, ReferenceFault> result) {
    const auto next = budget->next_inspection(user);
    end(std::move(result));
    if (next) {
      next->post_inspection();
    }
  }

  static std::string describe(const http::ClientError& error) {
    return error.fault == http::ClientFault::kForbidden ? "the address is not public"
                                                        : error.detail;
  }

  void again_or(Item& item, std::string_view reason, const std::string& detail) {
    if (++item.failures >= kReferenceTriesMax || Clock::now() + kRetryPause >= deadline) {
      unusable(item, reason, detail);
      return;
    }
    const std::size_t dropped = item.bytes.size();
    item.bytes.clear();
    held -= dropped;
    budget->rest(*this);
    budget->give_back(user, dropped);
    fetcher.client_.after(kRetryPause, [self = shared_from_this(), &item] {
      if (!self->finished) {
        self->ask(item);
      }
    });
  }

  // Its server did not deliver it in time: for good, unless it was us who had no room or no turn
  // for it.
  void late(const Item& item, const std::string& detail) {
    if (item.starved || held_up) {
      fail({.kind = Kind::kBusy,
            .message = "no room for references in time",
            .detail = detail,
            .after = std::chrono::duration_cast<std::chrono::milliseconds>(kComeBackAfter)});
    } else {
      unusable(item, kLate, detail);
    }
  }

  void unusable(const Item& item, std::string_view reason, const std::string& detail) {
    fail({.kind = Kind::kUnusable,
          .message = reference_message(item.member, reason),
          .detail = detail});
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
      fault =
          ReferenceFault{.kind = why == MediaFault::kUnavailable ? Kind::kOurs : Kind::kUnusable,
                         .message = reference_message(item.member, reason_of(why, item.image))};
    };
    std::size_t kept = 0;
    // Only one file at a time is in memory, unless somebody needs them later.
    const auto keep_or_drop = [&](std::string& bytes) {
      if (!keep_bytes) {
        std::string().swap(bytes);
      }
      kept += bytes.size();
    };
    for (Item& item : items) {
      auto bytes = canceled ? std::nullopt : item.bytes.read();
      item.bytes.clear();
      if (!bytes) {
        fault = canceled ? ReferenceFault{.kind = Kind::kCanceled, .message = "canceled"}
                         : ReferenceFault{.kind = Kind::kOurs, .message = "a file is lost"};
      } else if (item.image) {
        auto image = inspect_image_reference(std::move(*bytes), fetcher.decoder_);
        if (image) {
          found->image = std::move(*image);
          keep_or_drop(found->image->bytes);
        } else {
          refuse(item, image.error());
        }
      } else {
        auto sound = inspect_audio_reference(std::move(*bytes), fetcher.decoder_);
        if (sound) {
          found->sounds.push_back(std::move(*sound));
          keep_or_drop(found->sounds.back().bytes);
        } else {
          refuse(item, sound.error());
        }
      }
      if (fault) {
        end_inspection(std::move(*fault));
        return;
      }
    }
    held -= kept;  // Theirs is the result now.
    budget->keep(user, kept);
    end_inspection(References(
        found.release(), [budget = budget, user = user, kept](const audiogen::References* all) {
          delete all;
          budget->let_go(user, kept);
        }));
  }

  void end(Result<References, ReferenceFault> result) {
    const Done reply = std::move(done);
    reply(std::move(result));
    budget->leave(shared_from_this());
  }

  ReferenceFetcher& fetcher;  // There as long as the fetch is open.
  const std::shared_ptr<Budget> budget;
  const UserId user;
  const bool keep_bytes;
  const Clock::time_point came_at = Clock::now();
  Clock::time_point deadline;
  bool held_up = false;  // by others: it began too late to have its whole time
  std::vector<Item> items;
  std::size_t missing;
  std::size_t held = 0;      // bytes of the budget
  std::uint64_t number = 0;  // 0: refused. Guarded by the budget's mutex.
  Done done;
  bool finished = false;
  std::atomic<bool> canceled{false};
};

std::optional<std::chrono::milliseconds> ReferenceFetcher::Budget::admit(
    const std::shared_ptr<Fetch>& fetch) {
  MutexLock lock(mutex);
  open.insert(fetch);
  User& user = users[fetch->user];
  // Some users who want much may fill the room: whoever has next to nothing there has as much
  // again.
  const std::size_t room = user.open < kFewOpen ? 2 * limits.waiting_max : limits.waiting_max;
  if (waiting.size() >= room || user.open >= waiting_each() + tasks_each()) {
    const auto now = Clock::now();
    user.next_come_back = std::max(user.next_come_back + kComeBackGap, now + kComeBackAfter);
    const auto after =
        std::chrono::duration_cast<std::chrono::milliseconds>(user.next_come_back - now);
    std::erase_if(users, [&](const auto& one) {
      return one.second.open == 0 && one.second.share.bytes == 0 &&
             one.second.next_come_back <= now;
    });
    return after;
  }
  fetch->number = ++last_number;
  ++user.open;
  waiting.push_back(fetch);
  const Calls hungry = look_again();
  lock.unlock();
  feed(hungry);
  return std::nullopt;
}

bool ReferenceFetcher::Budget::take(Fetch& fetch,
                                    std::size_t more,
                                    const std::shared_ptr<http::ClientCall>& call) {
  MutexLock lock(mutex);
  User& user = users[fetch.user];
  const std::uint64_t oldest_of_user = *user.begun.begin();
  const bool of_user = user.share.has_room(
      fetch.number, fetch.held, more, oldest_of_user, limits.bytes_max / kUserShare);
  // Each of these changes says that others may go on who could not, or begin.
  bool others_may_go_on = false;
  if (of_user) {
    without_share.erase(fetch.number);
  } else {
    others_may_go_on = without_share.insert(fetch.number).second;
  }
  const std::uint64_t oldest_of_all = oldest();
  const bool takes =
      of_user && all.has_room(fetch.number, fetch.held, more, oldest_of_all, limits.bytes_max);
  if (fetch.number == oldest_of_user) {
    others_may_go_on = user.share.note(fetch.number, of_user) || others_may_go_on;
  }
  if (fetch.number == oldest_of_all) {
    others_may_go_on = all.note(fetch.number, takes) || others_may_go_on;
  }
  if (takes) {
    user.share.bytes += more;
    all.bytes += more;
  }
  const Calls hungry = others_may_go_on ? look_again() : Calls();
  if (!takes) {
    starved.push_back(call);
  }
  lock.unlock();
  feed(hungry);
  return takes;
}

std::uint64_t ReferenceFetcher::Budget::oldest() const {
  const auto first =
      std::find_if(begun.begin(), begun.end(), [this](std::uint64_t number) LOCKS_REQUIRED(mutex) {
        return !without_share.contains(number);
      });
  return first == begun.end() ? 0 : *first;
}

void ReferenceFetcher::Budget::give_back(const UserId& user, std::size_t fewer) {
  if (fewer == 0) {
    return;
  }
  MutexLock lock(mutex);
  users[user].share.bytes -= fewer;
  all.bytes -= fewer;
  forget_if_idle(user);
  const Calls hungry = look_again();
  lock.unlock();
  feed(hungry);
}

void ReferenceFetcher::Budget::rest(const Fetch& fetch) {
  MutexLock lock(mutex);
  User& user = users[fetch.user];
  bool others_may_go_on = without_share.erase(fetch.number) > 0;
  for (ByteShare* const share : {&user.share, &all}) {
    if (share->starving == fetch.number) {
      others_may_go_on = share->note(fetch.number, true);
    }
  }
  const Calls hungry = others_may_go_on ? look_again() : Calls();
  lock.unlock();
  feed(hungry);
}

void ReferenceFetcher::Budget::keep(const UserId& user, std::size_t of_them) {
  if (of_them == 0) {
    return;
  }
  const MutexLock lock(mutex);
  users[user].share.kept += of_them;
  all.kept += of_them;
}

void ReferenceFetcher::Budget::let_go(const UserId& user, std::size_t of_them) {
  if (of_them == 0) {
    return;  // Its user may be forgotten by now.
  }
  {
    const MutexLock lock(mutex);
    users[user].share.kept -= of_them;
    all.kept -= of_them;
  }
  give_back(user, of_them);
}

void ReferenceFetcher::Budget::add_file(User& user, const std::string& host) {
  if (++user.hosts[host] <= files_per_host_each()) {
    ++hosts[host];
  }
}

void ReferenceFetcher::Budget::drop_file(User& user, const std::string& host) {
  const auto theirs = user.hosts.find(host);
  const bool counted = theirs->second <= files_per_host_each();
  if (--theirs->second == 0) {
    user.hosts.erase(theirs);
  }
  if (counted && --hosts[host] == 0) {
    hosts.erase(host);
  }
}

void ReferenceFetcher::Budget::move_host(const UserId& id, std::string& from, std::string to) {
  MutexLock lock(mutex);
  User& user = users[id];
  drop_file(user, from);
  // It has its turn: it is counted there, but waits for nobody.
  add_file(user, to);
  from = std::move(to);
  const Calls hungry = look_again();
  lock.unlock();
  feed(hungry);
}

bool ReferenceFetcher::Budget::may_inspect(const std::shared_ptr<Fetch>& fetch) {
  const MutexLock lock(mutex);
  User& user = users[fetch->user];
  user.inspections.push_back(fetch);
  return user.inspections.size() == 1;
}

std::shared_ptr<ReferenceFetcher::Fetch> ReferenceFetcher::Budget::next_inspection(
    const UserId& id) {
  const MutexLock lock(mutex);
  User& user = users[id];
  user.inspections.pop_front();
  return user.inspections.empty() ? nullptr : user.inspections.front();
}

void ReferenceFetcher::Budget::leave(const std::shared_ptr<Fetch>& fetch) {
  MutexLock lock(mutex);
  if (fetch->number != 0) {
    User& user = users[fetch->user];
    if (begun.erase(fetch->number) > 0) {
      user.begun.erase(fetch->number);
      without_share.erase(fetch->number);
      for (const Item& item : fetch->items) {
        drop_file(user, item.host);
      }
    } else {
      std::erase(waiting, fetch);
    }
    const std::size_t held = std::exchange(fetch->held, 0);
    --user.open;
    user.share.bytes -= held;
    all.bytes -= held;
    forget_if_idle(fetch->user);
  }
  fetch->items.clear();
  open.erase(fetch);
  // Only now: the fetcher's destructor waits for this.
  ended.notify_all();
  const Calls hungry = look_again();
  lock.unlock();
  feed(hungry);
}

void ReferenceFetcher::Budget::forget_if_idle(const UserId& id) {
  const auto it = users.find(id);
  if (it->second.open == 0 && it->second.share.bytes == 0 &&
      it->second.next_come_back <= Clock::now()) {
    users.erase(it);
  }
}

bool ReferenceFetcher::Budget::may_begin(const Fetch& fetch) {
  const User& user = users[fetch.user];
  const auto has_room = [&](const auto& of, const std::string& host, std::size_t max) {
    const auto at = of.find(host);
    return at == of.end() || at->second + fetch.items.size() <= max;
  };
  const bool starves = (!user.begun.empty() && user.share.starving == *user.begun.begin()) ||
                       (all.starving != 0 && all.starving == oldest());
  if (user.begun.size() >= tasks_each() || starves ||
      user.share.bytes >= limits.bytes_max / kUserShare || all.bytes >= limits.bytes_max) {
    return false;
  }
  const auto fits = [&](const Item& item) LOCKS_REQUIRED(mutex) {
    return has_room(user.hosts, item.host, files_per_host_each()) &&
           has_room(hosts, item.host, files_per_host());
  };
  return std::all_of(fetch.items.begin(), fetch.items.end(), fits);
}

ReferenceFetcher::Budget::Calls ReferenceFetcher::Budget::look_again() {
  std::vector<std::shared_ptr<Fetch>> ready;
  while (begun.size() < limits.tasks_max) {
    // Of the users with the fewest turns, the one who has waited longest: however many of one user
    // came first, they are not before everybody else's.
    auto next = waiting.end();
    std::size_t fewest = limits.tasks_max;
    for (auto it = waiting.begin(); it != waiting.end() && fewest > 0; ++it) {
      const std::size_t turns = users[(*it)->user].begun.size();
      if (turns < fewest && may_begin(**it)) {
        next = it;
        fewest = turns;
      }
    }
    if (next == waiting.end()) {
      break;
    }
    User& user = users[(*next)->user];
    begun.insert((*next)->number);
    user.begun.insert((*next)->number);
    for (const Item& item : (*next)->items) {
      add_file(user, item.host);
    }
    ready.push_back(std::move(*next));
    waiting.erase(next);
  }
  Calls hungry = std::exchange(starved, {});
  for (const auto& one : ready) {
    one->begin();
  }
  return hungry;
}

void ReferenceFetcher::Budget::feed(const Calls& hungry) {
  for (const auto& call : hungry) {
    call->go_on();
  }
}

ReferenceFetcher::ReferenceFetcher(Decoder& decoder,
                                   Pool& inspectors,
                                   http::Reach reach,
                                   ReferenceLimits limits,
                                   std::vector<IpNetwork> deny)
    : decoder_(decoder),
      inspectors_(inspectors),
      reach_(reach),
      budget_(std::make_shared<Budget>(std::move(limits))),
      client_({.deny = std::move(deny)}) {}

ReferenceFetcher::~ReferenceFetcher() {
  std::vector<std::shared_ptr<Fetch>> open;
  {
    const MutexLock lock(budget_->mutex);
    open.assign(budget_->open.begin(), budget_->open.end());
  }
  for (const auto& fetch : open) {
    fetch->cancel();
  }
  MutexLock lock(budget_->mutex);
  budget_->ended.wait(lock,
                      [this]() LOCKS_REQUIRED(budget_->mutex) { return budget_->open.empty(); });
}

std::shared_ptr<ProviderCall> ReferenceFetcher::fetch(
    const UserId& user,
    const std::shared_ptr<const GenerationRequest>& request,
    bool keep_bytes,
    std::chrono::steady_clock::time_point deadline,
    Done done) {
  auto fetch = std::make_shared<Fetch>(*this,
                                       user,
                                       items_of(*request, budget_->limits.folder),
                                       keep_bytes,
                                       deadline,
                                       std::move(done));
  if (const auto after = budget_->admit(fetch)) {
    fetch->end_soon(
        {.kind = Kind::kBusy, .message = "too many references are waited for", .after = *after});
  }
  return fetch;
}

}  // namespace audiogen::worker
