#include "tests/bench/requests.h"

#include "tests/bench/stand.h"

namespace audiogen::bench {

std::string create_request(std::string_view key, const std::string& extra) {
  const std::string_view body = usual_body();
  return "POST /api/v1/audio/generations HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer " +
         std::string(key) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + extra + "\r\n" + std::string(body);
}

std::string poll_request(std::string_view key, std::string_view task) {
  return "GET /api/v1/audio/generations/" + std::string(task) +
         " HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer " + std::string(key) + "\r\n\r\n";
}

Rounds creates_of(std::span<const std::string> keys) {
  std::vector<std::string> out;
  for (const std::string& key : keys) {
    out.push_back(create_request(key));
  }
  return Rounds(std::move(out));
}

Rounds polls_of(std::span<const std::string> keys, std::span<const TaskId> tasks) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    out.push_back(poll_request(keys[i % keys.size()], tasks[i].text()));
  }
  return Rounds(std::move(out));
}

}  // namespace audiogen::bench
