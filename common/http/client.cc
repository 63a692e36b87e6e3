#include "common/http/client.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>

#include <arpa/inet.h>
#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/ascii.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/base/wake_event.h"
#include "common/domain/public_url.h"
#include "common/http/curl_memory.h"
#include "common/http/egress.h"
#include "common/http/outgoing.h"

namespace audiogen::http {
namespace {

constexpr long kConnectionsPerHost = 0;  // No limit of libcurl's own: callers have theirs.
// libcurl looks for a connection to use by going through all of a multi handle's to that host: with
// thousands in use that is most of the work. So a handle gets no more calls at once than this, and
// the next one begins when it is full.
constexpr std::size_t kCallsPerHandle = 256;
constexpr int kEventsMax = 256;
constexpr std::int64_t kPatienceMax = 60'000;    // Milliseconds; only keeps the number small.
constexpr std::size_t kHeadersMax = 64U << 10U;  // Bytes of a response's header lines together.
// Each transfer holds one; with thousands of them open it is most of the memory. But libcurl makes
// two system calls for each time it fills one, so the first of them get more room. It takes a byte
// more than it is told.
constexpr long kReadBuffer = 1280 - 1, kRoomyReadBuffer = 32 * 1024 - 1;
constexpr std::size_t kRoomyTransfers = 256;
constexpr std::size_t kSpareMax = 256;  // Easy handles kept for the next calls.
// Room made for a body at once, when its length is announced.
constexpr std::size_t kReserveMax = 256 * 1024;
// Servers close idle connections, and a request that meets the closing is an unknown outcome: do
// not come near their usual limits (60 s and more).
constexpr long kIdleSecondsMax = 30;
// How many addresses of one name a proxy is asked to connect to.
constexpr std::size_t kAddressesMax = 4;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == '\r' || text.back() == '\n' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  return text;
}

// May be sent twice without doing more than once (RFC 9110 9.2.2).
bool is_repeatable(std::string_view method) {
  return method != "POST" && method != "PATCH";
}

// Scheme, host and port as the URL writes them.
std::string origin_of(const std::string& url) {
  const auto host = url.find("//");
  return url.substr(0, host == std::string::npos ? host : url.find_first_of("/?#", host + 2));
}

// The port a socket has on this side; -1 without one.
int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return -1;
  }
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

using Address = std::span<const std::uint8_t>;

IpAddress to_ip(Address address) {
  IpAddress out;
  if (address.size() == 4) {  // Kept as the mapped one.
    out.bytes[10] = out.bytes[11] = 0xFF;
  }
  std::copy(address.begin(),
            address.end(),
            out.bytes.end() - static_cast<std::ptrdiff_t>(address.size()));
  return out;
}

// May a call whose address came from outside connect there?
bool is_allowed(Address address, const std::vector<IpNetwork>& deny) {
  return is_public_address(address) &&
         std::none_of(deny.begin(), deny.end(), [ip = to_ip(address)](const IpNetwork& network) {
           return network.contains(ip);
         });
}

bool is_allowed(const char* numeric_address, const std::vector<IpNetwork>& deny) {
  std::array<std::uint8_t, 16> bytes{};
  if (::inet_pton(AF_INET, numeric_address, bytes.data()) == 1) {
    return is_allowed(Address(bytes).first(4), deny);
  }
  return ::inet_pton(AF_INET6, numeric_address, bytes.data()) == 1 &&
         is_allowed(Address(bytes), deny);
}

// As an address is written in a URL.
std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(address);
    return ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
  }
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return "[" + std::string(::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size())) + "]";
}

bool is_allowed(const sockaddr* address, const std::vector<IpNetwork>& deny) {
  if (address->sa_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(address);
    return is_allowed(Address(reinterpret_cast<const std::uint8_t*>(&v4->sin_addr), 4), deny);
  }
  if (address->sa_family == AF_INET6) {
    const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(address);
    return is_allowed(Address(reinterpret_cast<const std::uint8_t*>(&v6->sin6_addr), 16), deny);
  }
  return false;
}

}  // namespace

std::string_view ClientResponse::header(const std::string& lower_case_name) const {
  const auto it = headers.find(lower_case_name);
  return it == headers.end() ? std::string_view() : std::string_view(it->second);
}

// Everything but the inbox and the counters belongs to the client's thread alone.
struct Client::Impl {
  // One multi handle with its calls, its idle connections and its timer.
  struct Handle {
    Impl* impl = nullptr;
    std::uint32_t index = 0;
    CURLM* multi = nullptr;
    std::size_t calls = 0;
    std::optional<std::chrono::steady_clock::time_point> timer{};
  };
  // What epoll gives back: a handle's index and a socket, or kWake.
  static constexpr std::uint64_t kWake = ~std::uint64_t{0};

  // How a call gets to its server.
  enum class Way {
    kStraight,   // As egress() says; libcurl itself asks the proxy for what an operator configured.
    kLookingUp,  // No connection is wanted yet, only the addresses for the proxy.
    kByAddress,  // The proxy is asked to connect to one of them.
  };

  // The addresses of one name that passed the check, each as a URL has it.
  class Addresses {
   public:
    void add(const sockaddr* address) {
      const std::size_t six = address->sa_family == AF_INET6 ? 1 : 0;
      // By turns, as RFC 8305 section 4 has it, but IPv4 before IPv6: many a proxy has none of the
      // latter, few have none of the former. Neither family crowds the other out.
      if (found_[six] < kAddressesMax) {
        by_turns_.emplace(2 * found_[six]++ + six, text_of(address));
      }
    }
    // The next one; nullopt when there is none, or enough were taken.
    std::optional<std::string> take() {
      if (by_turns_.empty() || taken_ == kAddressesMax) {
        return std::nullopt;
      }
      ++taken_;
      return std::move(by_turns_.extract(by_turns_.begin()).mapped());
    }

   private:
    std::map<std::size_t, std::string> by_turns_;
    std::array<std::size_t, 2> found_{};  // Of IPv4, of IPv6.
    std::size_t taken_ = 0;
  };

  struct Transfer {
    CURL* easy = nullptr;
    curl_slist* headers = nullptr;
    ClientRequest request;
    std::string origin;  // Of its URL.
    ClientResponse response;
    Reply reply;
    bool sent = false;  // A connection was there and the request went its way.
    bool forbidden = false;
    bool too_large = false;
    bool told_enough = false;   // Cut off, and an answer all the same.
    bool refused = false;       // By its take_body.
    std::size_t given = 0;      // Bytes of the body that went to its take_body, or to nobody.
    std::vector<int> opened{};  // Sockets made for it: one for each address tried.
    bool stale = false;         // Its connection held what belongs to no answer.
    Way way = Way::kStraight;
    Addresses checked{};  // What the proxy was not asked to connect to yet.
    curl_slist* connect_to = nullptr;
    std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
    std::size_t header_bytes = 0;
    std::uint64_t number = 0;
    Handle* handle = nullptr;
    bool reading = false;     // Its body is being read …
    std::size_t counted = 0;  // … and so much of it has come, and counts.
    std::size_t more = 0;     // What it waits for room for.
    // Once it has waited: when its time is over, and what was left of it when it began to wait.
    std::optional<std::chrono::steady_clock::time_point> until{};
    std::chrono::steady_clock::duration left{};
    bool timed = false;  // Somebody looks at `until`.
  };
  struct Order {
    std::uint64_t number = 0;
    ClientRequest request;
    Reply reply;
  };

  struct Timed {
    std::chrono::steady_clock::time_point due;
    std::function<void()> work;
  };

  // Shared with the handles callers keep, which may outlive the client.
  struct Inbox {
    Mutex mutex;
    std::vector<Order> orders GUARDED_BY(mutex);
    std::vector<std::uint64_t> cancellations GUARDED_BY(mutex);
    std::vector<std::uint64_t> go_ons GUARDED_BY(mutex);
    std::vector<Timed> timed GUARDED_BY(mutex);
    bool stopping GUARDED_BY(mutex) = false;
    std::atomic<std::size_t> kept{0};  // Bytes of answers in use.
    std::atomic<bool> starved{false};  // Bodies wait for room.
    WakeEvent wake;
  };
  struct Call final : ClientCall {
    Call(std::shared_ptr<Inbox> to, std::uint64_t n) : inbox(std::move(to)), number(n) {}
    void cancel() override {
      {
        const MutexLock lock(inbox->mutex);
        inbox->cancellations.push_back(number);
      }
      inbox->wake.ring();
    }
    void go_on() override {
      {
        const MutexLock lock(inbox->mutex);
        inbox->go_ons.push_back(number);
      }
      inbox->wake.ring();
    }
    const std::shared_ptr<Inbox> inbox;
    const std::uint64_t number;
  };

  explicit Impl(ClientOptions with) : options(std::move(with)) {
    init_curl();
    epoll = ::epoll_create1(EPOLL_CLOEXEC);
    AG_CHECK(epoll);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWake;
    ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, inbox->wake.fd(), &event);
    thread = std::thread([this] { run(); });
  }

  ~Impl() {
    {
      const MutexLock lock(inbox->mutex);
      inbox->stopping = true;
    }
    inbox->wake.ring();
    thread.join();
    for (CURL* const easy : spare) {
      curl_easy_cleanup(easy);
    }
    for (const auto& handle : handles) {
      curl_multi_cleanup(handle->multi);
    }
  }

  // The first one with room, so that few calls share few connections.
  Handle& handle_with_room() {
    for (const auto& handle : handles) {
      if (handle->calls < kCallsPerHandle) {
        return *handle;
      }
    }
    auto made = std::make_unique<Handle>();
    made->impl = this;
    made->index = static_cast<std::uint32_t>(handles.size());
    made->multi = curl_multi_init();
    AG_CHECK(made->multi != nullptr);
    curl_multi_setopt(made->multi, CURLMOPT_SOCKETFUNCTION, &Impl::on_socket);
    curl_multi_setopt(made->multi, CURLMOPT_SOCKETDATA, made.get());
    curl_multi_setopt(made->multi, CURLMOPT_TIMERFUNCTION, &Impl::on_timer);
    curl_multi_setopt(made->multi, CURLMOPT_TIMERDATA, made.get());
    curl_multi_setopt(made->multi, CURLMOPT_MAX_HOST_CONNECTIONS, kConnectionsPerHost);
    curl_multi_setopt(made->multi, CURLMOPT_MAXCONNECTS, static_cast<long>(kCallsPerHandle));
    handles.push_back(std::move(made));
    return *handles.back();
  }

  static int on_socket(CURL*, curl_socket_t socket, int what, void* self, void* known) {
    auto* const handle = static_cast<Handle*>(self);
    const Impl* const impl = handle->impl;
    epoll_event event{};
    event.data.u64 = std::uint64_t{handle->index} << 32U | static_cast<std::uint32_t>(socket);
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0U) | (what & CURL_POLL_OUT ? EPOLLOUT : 0U);
    if (what == CURL_POLL_REMOVE) {
      // libcurl closes a connection that is still being made before it says so, and another thread
      // may have its number by now. That is no harm: what is not in our epoll is not taken out of
      // it, and only this thread puts sockets in. But a checker of races takes a number for what it
      // stands for, so this call is not one that it follows.
      ::syscall(SYS_epoll_ctl, impl->epoll.get(), EPOLL_CTL_DEL, socket, nullptr);
    } else if (known == nullptr) {
      ::epoll_ctl(impl->epoll.get(), EPOLL_CTL_ADD, socket, &event);
      curl_multi_assign(handle->multi, socket, handle);
    } else {
      ::epoll_ctl(impl->epoll.get(), EPOLL_CTL_MOD, socket, &event);
    }
    return 0;
  }

  static int on_timer(CURLM*, long milliseconds, void* self) {
    static_cast<Handle*>(self)->timer =
        milliseconds < 0 ? std::nullopt
                         : std::optional(std::chrono::steady_clock::now() +
                                         std::chrono::milliseconds(milliseconds));
    return 0;
  }

  // Runs after DNS and before connect, for one address after the other until one is connected to:
  // the only place where a name's real addresses are known.
  static curl_socket_t open_socket(void* self, curlsocktype purpose, curl_sockaddr* address) {
    auto* const transfer = static_cast<Transfer*>(self);
    if (purpose != CURLSOCKTYPE_IPCXN ||
        (transfer->request.reach == Reach::kPublicOnly && transfer->way != Way::kByAddress &&
         !is_allowed(&address->addr, transfer->handle->impl->options.deny))) {
      transfer->forbidden = true;
      return CURL_SOCKET_BAD;
    }
    if (transfer->way == Way::kLookingUp) {
      transfer->checked.add(&address->addr);
      return CURL_SOCKET_BAD;  // The proxy connects there; it is told in end().
    }
    const int socket =
        ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    transfer->opened.push_back(socket);
    return socket;
  }

  // Runs each time a request is about to leave on a connection, a kept one included.
  static int on_ready(void* self, char* address, char*, int, int local_port) {
    auto* const transfer = static_cast<Transfer*>(self);
    if (transfer->request.reach == Reach::kPublicOnly && transfer->way != Way::kByAddress &&
        !is_allowed(address, transfer->handle->impl->options.deny)) {
      transfer->forbidden = true;
      return CURL_PREREQFUNC_ABORT;
    }
    // Before we ask, a server has nothing to say: what waits on a kept connection is left over from
    // the answer before, and would be taken for the answer to this request.
    if (transfer->handle->impl->has_leftovers(*transfer, local_port)) {
      transfer->stale = true;
      return CURL_PREREQFUNC_ABORT;
    }
    // libcurl repeats by itself what a kept connection swallowed; the other side may have acted.
    if (transfer->sent && !is_repeatable(transfer->request.method)) {
      return CURL_PREREQFUNC_ABORT;
    }
    transfer->sent = true;
    return CURL_PREREQFUNC_OK;
  }

  // What waits to be read on the kept connection that `transfer` is about to use. libcurl does not
  // tell its socket at this point, so it is known by its own port.
  bool has_leftovers(Transfer& transfer, int local_port) {
    long made = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_NUM_CONNECTS, &made);
    if (made > 0) {
      for (const int socket : transfer.opened) {
        if (port_of(socket) == local_port) {
          sockets[local_port] = socket;
        }
      }
      return false;
    }
    const auto kept = sockets.find(local_port);
    char byte = 0;
    return kept != sockets.end() && port_of(kept->second) == local_port &&
           ::recv(kept->second, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }

  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) {
    auto* const transfer = static_cast<Transfer*>(self);
    const std::size_t bytes = size * count;
    Impl* const impl = transfer->handle->impl;
    if (transfer->request.take_body) {
      return give_body(*transfer, {data, bytes});
    }
    std::string& body = transfer->response.body;
    if (body.size() + bytes > transfer->request.refusal_max && !is_success(transfer->easy)) {
      transfer->told_enough = true;
      return 0;  // Ends the transfer.
    }
    if (body.size() + bytes > transfer->request.body_max) {
      transfer->too_large = true;
      return 0;  // Ends the transfer.
    }
    if (!impl->grow(*transfer, body.size() + bytes)) {
      return CURL_WRITEFUNC_PAUSE;
    }
    body.append(data, bytes);
    return bytes;
  }

  static bool is_success(CURL* easy) {
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status / 100 == 2;
  }

  static std::size_t give_body(Transfer& transfer, std::string_view part) {
    if (transfer.given + part.size() > transfer.request.body_max) {
      transfer.too_large = true;
      return 0;  // Ends the transfer.
    }
    constexpr long kOk = 200;
    long status = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    if (status == kOk) {
      const BodyPart answer = transfer.request.take_body(part);
      if (answer == BodyPart::kLater) {
        return CURL_WRITEFUNC_PAUSE;
      }
      if (answer == BodyPart::kRefused) {
        transfer.refused = true;
        return 0;
      }
    }
    transfer.given += part.size();
    return part.size();
  }

  // Of one origin's bodies, those that wait for room, and the one that is read although there is
  // none: it waits for nobody else's server, only for what our side still uses, so that whatever
  // the others have begun is ended in the end.
  struct Line {
    std::deque<std::uint64_t> unread;
    std::uint64_t first = 0;   // 0: none
    bool first_waits = false;  // … and it is not in `unread`: it must not wait behind others.
  };

  // For `more` bytes of its body.
  bool has_room(Transfer& transfer, std::size_t more) {
    // What our side uses drains for one that is too large to fit beside it; meanwhile none begins.
    const bool its_turn = drains_for == transfer.number;
    if (drains_for != 0 && !its_turn && !transfer.reading) {
      return false;
    }
    const std::size_t kept = inbox->kept.load();
    const std::size_t used = reading + kept;
    if (used != 0 && used + more > options.bodies_max) {
      Line& line = lines[transfer.origin];
      if (line.first != 0 && line.first != transfer.number) {
        drains_for = its_turn ? 0 : drains_for;  // It waits for its own origin's server.
        return false;
      }
      line.first = transfer.reading ? transfer.number : line.first;
      const std::size_t own = transfer.counted + more;
      if (kept != 0 && kept + own > options.bodies_max) {
        drains_for = drains_for == 0 ? transfer.number : drains_for;
        return false;
      }
    }
    drains_for = its_turn ? 0 : drains_for;
    return true;
  }

  // Stops reading until there is room for `more`; nobody's time runs meanwhile.
  void wait_for_room(Transfer& transfer, std::size_t more) {
    transfer.more = more;
    transfer.left = transfer.until.value_or(transfer.begun + transfer.request.total_timeout) -
                    std::chrono::steady_clock::now();
    transfer.until.reset();
    Line& line = lines[transfer.origin];
    if (line.first == transfer.number) {
      line.first_waits = true;
    } else {
      line.unread.push_back(transfer.number);
    }
    ++unread;
    curl_easy_setopt(transfer.easy, CURLOPT_TIMEOUT_MS, 0L);
    if (transfer.request.on_unread) {
      transfer.request.on_unread(true);
    }
  }

  // At the first byte of a body, `more` of which have come. Who needs no more than there is does
  // not become the first one: it may never send the rest.
  void begin_reading(Transfer& transfer, Line& line, std::size_t more) {
    transfer.reading = true;
    if (line.first == 0 && reading + inbox->kept.load() + more > options.bodies_max) {
      line.first = transfer.number;
    }
    curl_off_t length = -1;
    curl_easy_getinfo(transfer.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    transfer.response.body.reserve(
        std::min(static_cast<std::size_t>(std::max<curl_off_t>(length, 0)), kReserveMax));
  }

  // Counts what has come of a body, and not what it says will come: who announces much and sends
  // little would keep the room that others could use. False: it waits its turn.
  bool grow(Transfer& transfer, std::size_t size) {
    if (size <= kAlwaysRead) {
      return true;
    }
    const std::size_t more = size - transfer.counted;
    Line& line = lines[transfer.origin];
    if ((!transfer.reading && !line.unread.empty()) || !has_room(transfer, more)) {
      wait_for_room(transfer, more);
      return false;
    }
    if (!transfer.reading) {
      begin_reading(transfer, line, more);
    }
    reading += more;
    transfer.counted = size;
    return true;
  }

  // Goes on with the bodies that wait, as far as there is room.
  void read_waiting() {
    // First the flag: what is given back from here on rings again.
    inbox->starved.store(unread > 0);
    for (auto it = lines.begin(); it != lines.end();) {
      Line& line = it->second;
      read_waiting(line);
      it = line.unread.empty() && line.first == 0 ? lines.erase(it) : std::next(it);
    }
  }

  void read_waiting(Line& line) {
    if (line.first_waits) {
      Transfer& transfer = *transfers.at(by_number.at(line.first));
      if (has_room(transfer, transfer.more)) {
        line.first_waits = false;
        --unread;
        go_on_reading(transfer);
      }
    }
    while (!line.unread.empty()) {
      const auto it = by_number.find(line.unread.front());
      if (it == by_number.end()) {
        line.unread.pop_front();  // Canceled.
        --unread;
        continue;
      }
      Transfer& transfer = *transfers.at(it->second);
      if (!has_room(transfer, transfer.more)) {
        return;
      }
      line.unread.pop_front();
      --unread;
      if (!transfer.reading) {
        begin_reading(transfer, line, transfer.more);
      }
      go_on_reading(transfer);
    }
  }

  // Ends it when its time is over, if nothing else has. While it waits its time does not run on, so
  // it may be over later than this looks at it first.
  void time(Transfer& transfer) {
    transfer.timed = true;
    waiting.emplace(*transfer.until, [this, number = transfer.number] {
      const auto late = by_number.find(number);
      if (late == by_number.end()) {
        return;
      }
      Transfer& timed = *transfers.at(late->second);
      timed.timed = false;
      if (timed.until && *timed.until <= std::chrono::steady_clock::now()) {
        end(late->second, CURLE_OPERATION_TIMEDOUT);
      } else if (timed.until) {
        time(timed);
      }
    });
  }

  void go_on_reading(Transfer& transfer) {
    // libcurl's own clock has run on: from here on it is ours.
    if (transfer.request.on_unread) {
      transfer.request.on_unread(false);
    }
    transfer.until = std::chrono::steady_clock::now() + transfer.left;
    if (!transfer.timed) {
      time(transfer);
    }
    if (const CURLcode code = curl_easy_pause(transfer.easy, CURLPAUSE_CONT); code != CURLE_OK) {
      end(transfer.easy, code);
    }
  }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self) {
    auto* const transfer = static_cast<Transfer*>(self);
    const std::string_view line(data, size * count);
    transfer->header_bytes += line.size();
    if (transfer->header_bytes > kHeadersMax) {
      transfer->too_large = true;
      return 0;  // Ends the transfer.
    }
    if (line.starts_with("HTTP/")) {
      transfer->response.headers.clear();  // After a 100 Continue the real headers follow.
    } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
      transfer->response.headers.emplace(ascii::lower(line.substr(0, colon)),
                                         std::string(trimmed(line.substr(colon + 1))));
    }
    return line.size();
  }

  // Making and freeing one costs more than clearing it.
  CURL* new_easy() {
    if (!spare.empty()) {
      CURL* const easy = spare.back();
      spare.pop_back();
      return easy;
    }
    CURL* const easy = curl_easy_init();
    AG_CHECK(easy != nullptr);
    return easy;
  }
  void give_back(CURL* easy) {
    if (spare.size() == kSpareMax) {
      curl_easy_cleanup(easy);
      return;
    }
    curl_easy_reset(easy);
    spare.push_back(easy);
  }

  void begin(Order order) {
    auto transfer = std::make_unique<Transfer>();
    transfer->number = order.number;
    // libcurl keeps copies of these, for as long as the call lasts.
    const std::string url = std::move(order.request.url);
    const std::vector<std::string> headers = std::move(order.request.headers);
    transfer->request = std::move(order.request);
    transfer->origin = origin_of(url);
    transfer->reply = std::move(order.reply);
    transfer->easy = new_easy();
    const ClientRequest& request = transfer->request;
    CURL* const easy = transfer->easy;
    for (const std::string& line : headers) {
      transfer->headers = curl_slist_append(transfer->headers, line.c_str());
    }
    transfer->headers = curl_slist_append(transfer->headers, "Expect:");  // One round trip less.
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    set_outgoing_rules(easy);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    // A connection for each call. Over HTTP/2 the calls to an origin share one: libcurl would read
    // the bodies that are to wait in their sockets as long as any other of them goes on, 32 MB of
    // each, which nobody counts; and a connection that is dead without a word would take every new
    // call with it, until the kernel gives it up after a quarter of an hour
    // (github.com/curl/curl/issues/17225).
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
    if (request.method == "HEAD") {
      curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (request.method != "GET" && request.method != "DELETE") {
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
      curl_easy_setopt(
          easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    }
    curl_easy_setopt(
        easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout.count()));
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.total_timeout.count()));
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(request.slow_bytes));
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.slow_for.count()));
    curl_easy_setopt(easy,
                     CURLOPT_BUFFERSIZE,
                     transfers.size() < kRoomyTransfers ? kRoomyReadBuffer : kReadBuffer);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, kIdleSecondsMax);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, &Impl::on_ready);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer.get());
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &Impl::open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer.get());
    if (request.reach == Reach::kPublicOnly) {
      // A kept connection was opened for somebody else's rules: these calls make their own.
      curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
      curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
      transfer->way = egress().proxy.empty() ? Way::kStraight : Way::kLookingUp;
      curl_easy_setopt(easy, CURLOPT_PROXY, "");
    }
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Impl::on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer.get());
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Impl::on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer.get());
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer.get());
    by_number[transfer->number] = easy;
    transfer->handle = &handle_with_room();
    ++transfer->handle->calls;
    curl_multi_add_handle(transfer->handle->multi, easy);
    transfers[easy] = std::move(transfer);
  }

  // May the next address do what the last has not done, `code` being why? Without a proxy libcurl
  // would go on by itself.
  static bool may_go_on(const Transfer& transfer, CURLcode code) {
    if (code == CURLE_OK || transfer.sent || transfer.way == Way::kStraight) {
      return false;
    }
    // It is the proxy that cannot be reached, whatever it would have been asked for.
    return transfer.way == Way::kLookingUp ||
           (code != CURLE_COULDNT_CONNECT && code != CURLE_COULDNT_RESOLVE_PROXY);
  }

  // The proxy would look the name up again, out of our sight, and get another answer: so it gets
  // an address that was checked, and TLS the name. False when there is none, or no time left.
  bool go_by_proxy(Transfer& transfer) {
    using std::chrono::milliseconds;
    const auto left =
        transfer.request.total_timeout -
        std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - transfer.begun);
    const std::optional<std::string> address =
        left.count() > 0 ? transfer.checked.take() : std::nullopt;
    if (!address) {
      return false;
    }
    transfer.way = Way::kByAddress;
    transfer.forbidden = false;  // Some other one was.
    CURL* const easy = transfer.easy;
    curl_multi_remove_handle(transfer.handle->multi, easy);
    curl_slist_free_all(transfer.connect_to);
    transfer.connect_to = curl_slist_append(nullptr, ("::" + *address + ":").c_str());
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, transfer.connect_to);
    curl_easy_setopt(easy, CURLOPT_PROXY, egress().proxy.c_str());
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "");  // What is not for it is not public.
    curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(left.count()));
    curl_multi_add_handle(transfer.handle->multi, easy);
    return true;
  }

  // Takes a transfer out and answers it.
  void end(CURL* easy, const std::optional<CURLcode>& code) {
    const auto it = transfers.find(easy);
    AG_CHECK(it != transfers.end());
    if (code && it->second->stale) {
      // Nothing of it has left: once more, on a connection of its own.
      it->second->stale = false;
      curl_multi_remove_handle(it->second->handle->multi, easy);
      curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
      curl_multi_add_handle(it->second->handle->multi, easy);
      return;
    }
    if (code && may_go_on(*it->second, *code) && go_by_proxy(*it->second)) {
      return;
    }
    const std::unique_ptr<Transfer> transfer = std::move(it->second);
    transfers.erase(it);
    by_number.erase(transfer->number);
    drains_for = drains_for == transfer->number ? 0 : drains_for;
    if (transfer->reading) {
      reading -= transfer->counted;
      const auto line = lines.find(transfer->origin);
      if (line != lines.end() && line->second.first == transfer->number) {
        unread -= line->second.first_waits ? 1U : 0U;
        line->second.first = 0;
        line->second.first_waits = false;
      }
    }
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_off_t began = 0;  // The answer, after so many microseconds.
    curl_easy_getinfo(easy, CURLINFO_STARTTRANSFER_TIME_T, &began);
    curl_multi_remove_handle(transfer->handle->multi, easy);
    --transfer->handle->calls;
    give_back(easy);
    curl_slist_free_all(transfer->headers);
    curl_slist_free_all(transfer->connect_to);
    in_flight.fetch_sub(1);
    if (!code) {
      transfer->reply(ClientError{ClientFault::kCanceled, "canceled"});
    } else if (*code == CURLE_OK || transfer->told_enough) {
      transfer->response.status = static_cast<int>(status);
      transfer->response.first_byte =
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::microseconds(began));
      transfer->reply(std::move(transfer->response));
    } else {
      const ClientFault fault =
          transfer->forbidden   ? ClientFault::kForbidden
          : transfer->too_large ? ClientFault::kTooLarge
          : transfer->refused   ? ClientFault::kCanceled
          : !transfer->sent && (*code == CURLE_UNSUPPORTED_PROTOCOL || *code == CURLE_URL_MALFORMAT)
              ? ClientFault::kForbidden
          : transfer->sent ? ClientFault::kUnknown
                           : ClientFault::kNotSent;
      transfer->reply(ClientError{fault, curl_easy_strerror(*code)});
    }
  }

  void collect_finished() {
    // By number: a reply may start a call, and with it a new handle.
    for (std::size_t i = 0; i < handles.size(); ++i) {
      CURLM* const multi = handles[i]->multi;
      int left = 0;
      for (const CURLMsg* message = curl_multi_info_read(multi, &left); message != nullptr;
           message = curl_multi_info_read(multi, &left)) {
        if (message->msg == CURLMSG_DONE) {
          end(message->easy_handle, message->data.result);
        }
      }
    }
  }

  // False when the client stops.
  bool read_inbox() {
    std::vector<Order> orders;
    std::vector<std::uint64_t> cancellations;
    std::vector<std::uint64_t> go_ons;
    bool stop = false;
    {
      const MutexLock lock(inbox->mutex);
      orders.swap(inbox->orders);
      cancellations.swap(inbox->cancellations);
      go_ons.swap(inbox->go_ons);
      for (Timed& timed : inbox->timed) {
        waiting.emplace(timed.due, std::move(timed.work));
      }
      inbox->timed.clear();
      stop = inbox->stopping;
    }
    for (Order& order : orders) {
      begin(std::move(order));
    }
    for (const std::uint64_t number : cancellations) {
      if (const auto it = by_number.find(number); it != by_number.end()) {
        end(it->second, std::nullopt);
      }
    }
    for (const std::uint64_t number : go_ons) {
      if (const auto it = by_number.find(number); it != by_number.end()) {
        if (const CURLcode code = curl_easy_pause(it->second, CURLPAUSE_CONT); code != CURLE_OK) {
          end(it->second, code);
        }
      }
    }
    return !stop;
  }

  void run_due() {
    const auto now = std::chrono::steady_clock::now();
    while (!waiting.empty() && waiting.begin()->first <= now) {
      const auto work = std::move(waiting.begin()->second);
      waiting.erase(waiting.begin());
      work();
    }
  }

  // Milliseconds until something is due; -1: nothing is.
  int patience() const {
    std::optional<std::chrono::steady_clock::time_point> next;
    if (!waiting.empty()) {
      next = waiting.begin()->first;
    }
    for (const auto& handle : handles) {
      if (handle->timer) {
        next = std::min(next.value_or(*handle->timer), *handle->timer);
      }
    }
    if (!next) {
      return -1;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*next - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kPatienceMax));
  }

  void run() {
    std::array<epoll_event, kEventsMax> events{};
    int running = 0;
    while (read_inbox()) {
      run_due();
      collect_finished();
      read_waiting();
      const int count = ::epoll_wait(epoll.get(), events.data(), kEventsMax, patience());
      bool woken = false;
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.u64 == kWake) {
          woken = true;
          continue;
        }
        const int flags = (event.events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                          (event.events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                          (event.events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
        curl_multi_socket_action(handles[event.data.u64 >> 32U]->multi,
                                 static_cast<curl_socket_t>(event.data.u64 & 0xFFFFFFFFU),
                                 flags,
                                 &running);
      }
      const auto now = std::chrono::steady_clock::now();
      for (const auto& handle : handles) {
        if (handle->timer && *handle->timer <= now) {
          handle->timer.reset();
          curl_multi_socket_action(handle->multi, CURL_SOCKET_TIMEOUT, 0, &running);
        }
      }
      collect_finished();
      inbox->wake.answer(woken);
    }
    // A reply may start more: go on until nothing is left.
    do {
      while (!transfers.empty()) {
        end(transfers.begin()->first, std::nullopt);
      }
      read_inbox();
    } while (!transfers.empty());
  }

  const ClientOptions options;
  std::size_t reading = 0;                      // Bytes of the bodies being read.
  std::unordered_map<std::string, Line> lines;  // By origin.
  std::size_t unread = 0;                       // In all of them.
  std::uint64_t drains_for = 0;                 // A transfer; 0: none.
  UniqueFd epoll;
  std::vector<std::unique_ptr<Handle>> handles;
  std::vector<CURL*> spare;  // As new.
  std::unordered_map<CURL*, std::unique_ptr<Transfer>> transfers;
  std::unordered_map<int, int> sockets;  // Of connections, by their own port.
  std::unordered_map<std::uint64_t, CURL*> by_number;
  std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> waiting;
  const std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  std::atomic<std::uint64_t> next_number{1};
  std::atomic<std::size_t> in_flight{0};
  std::thread thread;
};

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

std::shared_ptr<ClientCall> Client::start(ClientRequest request, Reply reply) {
  const std::uint64_t number = impl_->next_number.fetch_add(1);
  auto call = std::make_shared<Impl::Call>(impl_->inbox, number);
  impl_->in_flight.fetch_add(1);
  {
    const MutexLock lock(impl_->inbox->mutex);
    impl_->inbox->orders.push_back({number, std::move(request), std::move(reply)});
  }
  impl_->inbox->wake.ring();
  return call;
}

void Client::after(std::chrono::milliseconds delay, std::function<void()> work) {
  {
    const MutexLock lock(impl_->inbox->mutex);
    impl_->inbox->timed.push_back({std::chrono::steady_clock::now() + delay, std::move(work)});
  }
  impl_->inbox->wake.ring();
}

std::shared_ptr<void> Client::keep(std::size_t bytes) {
  const auto& inbox = impl_->inbox;
  inbox->kept.fetch_add(bytes);
  // Owns nothing but the count: what a copy's end runs.
  return {static_cast<void*>(inbox.get()), [inbox, bytes](void*) {
            inbox->kept.fetch_sub(bytes);
            if (inbox->starved.load()) {
              inbox->wake.ring();
            }
          }};
}

std::size_t Client::in_flight() const {
  return impl_->in_flight.load();
}

}  // namespace audiogen::http
