// From a request to the handler of its route: which row of the table it is, whether the caller may,
// and what the table says about every other method.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/server/auth.h"
#include "api/server/call.h"
#include "api/server/rate_limiter.h"
#include "api/server/route.h"
#include "common/base/config.h"
#include "common/http/request_meter.h"
#include "common/http/server.h"

namespace audiogen::api {

// The paths of a table as a tree of segments: a look-up compares no more than the segments of one
// path, however many routes there are, and allocates nothing.
class RouteTree {
 public:
  // A path of the table and what it answers.
  struct Path {
    std::vector<const Route*> routes;
    std::string allow;                    // Its methods, in the table's order.
    http::RequestMeter* meter = nullptr;  // Of the path as the table has it.

    // The route of a method; HEAD is its GET's. Null: 405.
    const Route* find(std::string_view method) const;
  };

  // Paths that begin with `placeholder` begin with `prefix` instead ("" or "/…").
  void add(const Route& route, std::string_view placeholder = {}, std::string_view prefix = {});

  // Null: there is no such path.
  const Path* find(std::string_view path, PathParameters& parameters) const;

  // Of a path that is none: it stands where there are others that pages of other sites may read, as
  // does the name of a file that is none. Then they may read that there is no such thing, too.
  bool is_read_by_others(std::string_view path) const;

 private:
  struct Node {
    std::string segment;
    std::vector<Node> children;
    std::unique_ptr<Node> any, rest;  // "{name}", "{name*}".
    Path path;                        // No routes: the way to longer ones only.
  };
  // The node whose routes may serve `path`, and what stands for their "{name}"s, the last of
  // `count`.
  const Node* walk(std::string_view path, PathParameters& parameters, std::size_t& count) const;

  Node root_;
};

class Dispatcher {
 public:
  // All are to live as long as this.
  Dispatcher(const RouteTree& tree,
             Parts& parts,
             Authenticators authenticators,
             RateLimiter& limiter,
             const Config& config);

  // Answers the exchange, now or later. Runs on an I/O thread.
  //
  // In this order: 404, 405; 503 where the route is late; 403 for another site's page, where it may
  // not; 401, 429, 409 where a page of ours (X-Account) is another user's than the session, 403;
  // then the handler, which reads the body. HEAD is answered by its GET. OPTIONS is answered for
  // every path of the table: 204, and to a page of another site what it may send (Fetch standard,
  // CORS-preflight).
  void handle(http::Exchange exchange);

 private:
  bool is_own(const Route& route, const http::Request& request) const;
  void admit(Call call);
  void judged(Call call, const Authenticator::Judgement& judgement);

  const RouteTree& tree_;
  Parts& parts_;
  const Authenticators authenticators_;
  RateLimiter& limiter_;
  const bool no_proxies_;         // Nobody's X-Forwarded-For is believed.
  const std::string own_origin_;  // Of our own pages.
};

}  // namespace audiogen::api
