// The access log, where it is switched on: a line for each request of the public port, once it has
// its answer.
//
// Of the request it tells the route as the table has it, and never the address: that may hold a
// signature or somebody's id; and whose key or session it was, by the ids that other lines have.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "api/server/route.h"
#include "common/base/batch_queue.h"
#include "common/base/time.h"
#include "common/http/server.h"
#include "common/store/commands.h"

namespace audiogen::api {

// What a request is known to be, noted with Exchange::note() while it is served.
struct Asked {
  const Route* route = nullptr;
  store::KeyRecord key{};  // Nobody's user: not known, or not yet.
};
// Notes it, where there is an access log.
void note_asked(const http::Exchange& exchange,
                const Route& route,
                const store::KeyRecord& key = {});

class AccessLog {
 public:
  // Of lines that wait to be written; what comes when there are as many is counted
  // (access_log_dropped_total) and lost: no request waits for a log.
  static constexpr std::size_t kWaitingMax = 10'000;

  explicit AccessLog(std::size_t waiting_max = kWaitingMax);
  ~AccessLog() { stop(); }
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // For ServerOptions::answered. Any thread, never blocks.
  void answered(const http::Answered& answered);

  // Writes what waits.
  void stop();

 private:
  struct Line {
    Instant at;
    std::string method, request_id, client;
    Asked asked;
    int status = 0;
    std::uint64_t bytes = 0;
    std::chrono::duration<double> took{0};
  };
  void run();

  BatchQueue<Line> lines_;
  std::thread thread_;
};

}  // namespace audiogen::api
