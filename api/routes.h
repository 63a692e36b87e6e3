// Every path the public port answers, in one table: the route table is the security review.
#pragma once

#include <optional>
#include <string>

#include "api/files.h"
#include "api/generations.h"
#include "common/http/server.h"

namespace audiogen::api {

class Routes {
 public:
  // `files` may be null: then CDN_URL is served by somebody else.
  Routes(const Config& config, Generations& generations, const DirectoryStore* files);

  // Answers the exchange, now or later. Runs on an I/O thread.
  void handle(http::Exchange exchange);

 private:
  Generations& generations_;
  const DirectoryStore* files_;
  const std::optional<LinkSigner> links_;
  const std::chrono::seconds retention_;  // 0: files stay for ever.
  const std::string files_prefix_;        // "/files/"
  const std::string openapi_;
};

// What the server itself answers when there is no request to route: bad framing, a deadline, an
// exception.
http::Response render_server_error(int status,
                                   std::string_view reason,
                                   const http::Request* partial);

}  // namespace audiogen::api
