// One line when the connection is lost and one when it is back; while it is away, one a minute.
#include "common/queue/dialer.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/metrics.h"

namespace audiogen::queue {
namespace {

constexpr std::chrono::milliseconds kDelayMin{100};
constexpr std::chrono::milliseconds kDelayMax{5'000};
constexpr std::chrono::seconds kLasting{5};  // A connection that held this long was no failure.
constexpr std::chrono::minutes kLogEvery{1};

std::string address(const AmqpUrl& url) {
  return HostPort{url.host, url.port}.text();
}

}  // namespace

Dialer::Dialer(const AmqpUrl& url,
               const Topology& topology,
               const Connection::Options& options,
               std::string role)
    : url_(url),
      topology_(topology),
      options_(options),
      role_(std::move(role)),
      connected_(
          metrics::gauge("broker_connected", "1 while connected to the broker", {{"role", role_}})),
      reconnects_(metrics::counter(
          "broker_reconnects_total", "Connections after the first one", {{"role", role_}})) {}

std::unique_ptr<Connection> Dialer::dial() {
  auto opened = Connection::open(url_, topology_, options_);
  if (opened) {
    since_ = Clock::now();
    connected_.Set(1);
    if (ever_connected_) {
      reconnects_.Increment();
    }
    ever_connected_ = true;
    logged_.reset();
    log::info("broker connected", {{"role", role_}, {"broker", address(url_)}});
    return *std::move(opened);
  }
  ++failures_;
  const OpenError& error = opened.error();
  const auto now = Clock::now();
  // A mistake in the configuration is told at once even when the broker was merely away before.
  const bool news = !logged_ || (error.configuration && error.reason != logged_->why);
  if (news || now - logged_->at >= kLogEvery) {
    logged_ = Logged{error.reason, now};
    log::write(error.configuration ? log::Level::kError : log::Level::kWarn,
               "broker unreachable",
               {{"role", role_},
                {"broker", address(url_)},
                {"why", error.reason},
                {"needs_operator", error.configuration},
                {"failures", failures_}});
  }
  return nullptr;
}

void Dialer::lost(std::string_view why) {
  connected_.Set(0);
  const auto now = Clock::now();
  failures_ = since_ && now - *since_ >= kLasting ? 0 : failures_ + 1;
  logged_ = Logged{std::string(why), now};
  log::warn("broker connection lost", {{"role", role_}, {"broker", address(url_)}, {"why", why}});
}

void Dialer::closed() {
  connected_.Set(0);
}

std::chrono::milliseconds Dialer::delay() {
  const std::chrono::milliseconds ceiling =
      std::min(kDelayMax, kDelayMin * (2 << std::clamp(failures_, 0, 6)));
  return std::chrono::milliseconds(
      std::uniform_int_distribution<std::int64_t>(kDelayMin.count(), ceiling.count())(random_));
}

}  // namespace audiogen::queue
