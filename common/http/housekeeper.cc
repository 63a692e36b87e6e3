#include "common/http/housekeeper.h"

#include <array>
#include <cerrno>

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "common/base/check.h"
#include "common/http/connection.h"

namespace audiogen::http {

Housekeeper::Housekeeper()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Housekeeper::start(std::chrono::milliseconds interval,
                        std::function<void(std::chrono::steady_clock::time_point)> tick) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wakeup_.get();
  AG_CHECK(epoll_ && wakeup_ &&
           ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wakeup_.get(), &event) == 0);
  thread_ = std::thread([this, interval, tick = std::move(tick)] { run(interval, tick); });
}

void Housekeeper::stop() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  ::eventfd_write(wakeup_.get(), 1);
  thread_.join();
  watched_.clear();
  std::vector<std::shared_ptr<Connection>> posted;  // Let go of without the lock.
  const MutexLock lock(mutex_);
  posted.swap(posted_);
}

void Housekeeper::post(std::shared_ptr<Connection> connection) {
  const MutexLock lock(mutex_);
  if (!stopping_) {
    posted_.push_back(std::move(connection));
    ::eventfd_write(wakeup_.get(), 1);
  }
}

bool Housekeeper::watch(int fd, std::shared_ptr<Connection> connection) {
  epoll_event event{};
  event.events = EPOLLOUT | EPOLLONESHOT;
  event.data.fd = fd;
  const auto [at, added] = watched_.try_emplace(fd, std::move(connection));
  if (::epoll_ctl(epoll_.get(), added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) != 0) {
    watched_.erase(at);
    return false;
  }
  return true;
}

void Housekeeper::unwatch(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watched_.erase(fd);
}

void Housekeeper::run(std::chrono::milliseconds interval,
                      const std::function<void(std::chrono::steady_clock::time_point)>& tick) {
  std::vector<std::shared_ptr<Connection>> posted;
  auto next_tick = std::chrono::steady_clock::now() + interval;
  for (;;) {
    std::array<epoll_event, 64> events;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(next_tick - std::chrono::steady_clock::now());
    const int count =
        ::epoll_wait(epoll_.get(),
                     events.data(),
                     static_cast<int>(events.size()),
                     static_cast<int>(std::max(left.count(), decltype(left)::rep{0})));
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == wakeup_.get()) {
        eventfd_t ignored = 0;
        ::eventfd_read(fd, &ignored);
      } else if (const auto found = watched_.find(fd); found != watched_.end()) {
        // A copy: on_writable() may unwatch.
        const std::shared_ptr<Connection> connection = found->second;
        connection->on_writable();
      }
    }
    bool stopping = false;
    {
      const MutexLock lock(mutex_);
      stopping = stopping_;
      posted.swap(posted_);
    }
    for (const std::shared_ptr<Connection>& connection : posted) {
      connection->resume();
    }
    posted.clear();
    if (stopping) {
      return;
    }
    if (const auto now = std::chrono::steady_clock::now(); now >= next_tick) {
      tick(now);
      next_tick = now + interval;
    }
  }
}

}  // namespace audiogen::http
