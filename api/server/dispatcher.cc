#include "api/server/dispatcher.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "api/server/access_log.h"
#include "api/server/answer.h"
#include "api/server/security_events.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/occasionally.h"
#include "common/base/origin.h"
#include "common/domain/sign_in.h"

namespace audiogen::api {
namespace {

// Everything below it is for pages of any site, its errors as well.
constexpr std::string_view kOfAnySite = "/api/v1/";
// And everything below this for pages of our own.
constexpr std::string_view kOfOurs = "/console/";

// A proxy that nobody told us about makes all its clients one address to every limit. Never the
// value: it is anybody's word.
void warn_forwarded() {
  static Occasionally line(std::chrono::minutes(1));
  if (line.due()) {
    log::warn("X-Forwarded-For ignored: set TRUSTED_PROXIES");
  }
}

// Under overload a thread that is woken for each request spends more on waking than on refusing,
// and takes the core from the database each time. So it lets a few gather; unless it finds many
// anyway: then it has no time to rest.
void rest_between_refusals() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kRest = std::chrono::microseconds(500);
  constexpr int kMany = 64;
  thread_local std::optional<Clock::time_point> rested;
  thread_local int refused = 0;
  ++refused;
  if (const auto now = Clock::now(); !rested || now - *rested > 2 * kRest) {
    if (refused < kMany) {
      std::this_thread::sleep_for(kRest);
    }
    rested = Clock::now();
    refused = 0;
  }
}

// The id that the answer carries.
std::string refuse(const http::Exchange& exchange,
                   const ApiError& error,
                   bool cross_origin,
                   std::string_view allow = {}) {
  const http::Request& request = exchange.request();
  std::string request_id = request_id_of(&request);
  http::Response response = error_response(error, request_id);
  if (!allow.empty()) {
    append_header(response.headers, "Allow", allow);
  }
  if (cross_origin) {
    append_cross_origin(response.headers, request);
  } else if (request.path.starts_with(kOfOurs)) {
    append_own_only(response.headers);
  }
  exchange.reply(std::move(response));
  return request_id;
}

// Cookies are the browser's: when somebody else has signed in in one tab, another still shows the
// page of whoever was there, and would act for the wrong one. So a page says whose it is.
bool is_other_account(const http::Request& request, UserId user) {
  return request.has_header("x-account") && request.joined_headers("x-account") != user.text();
}

void answer_options(const http::Exchange& exchange, const std::string& allow, bool cross_origin) {
  const http::Request& request = exchange.request();
  http::Response response;
  response.status = 204;
  append_header(response.headers, "Allow", allow + ", OPTIONS");
  append_header(response.headers, "X-Request-Id", request_id_of(&request));
  if (cross_origin && request.has_header("origin")) {
    append_cross_origin(response.headers, request);
    if (request.has_header("access-control-request-method")) {
      append_header(response.headers, "Access-Control-Allow-Methods", allow);
      response.headers +=
          "Access-Control-Allow-Headers: Authorization, Content-Type, Idempotency-Key, "
          "If-None-Match, Last-Event-ID, Prefer, Range, traceparent, X-Request-Id\r\n"
          "Access-Control-Max-Age: 86400\r\n";
    }
  }
  exchange.reply(std::move(response));
}

Limit limit_of(RateClass rate) {
  switch (rate) {
    case RateClass::kCreate:
      return Limit::kCreate;
    case RateClass::kManage:
      return Limit::kManage;
    case RateClass::kFile:
      return Limit::kFile;
    case RateClass::kSignIn:
      return Limit::kSignIn;
    case RateClass::kRead:
    case RateClass::kNone:
      break;
  }
  return Limit::kRead;
}

bool is_any(std::string_view segment) {
  return segment.starts_with('{') && segment.ends_with('}');
}
bool is_rest(std::string_view segment) {
  return segment.starts_with('{') && segment.ends_with("*}");
}

// Takes the first segment, and the "/" behind it, off `path`. False when it was the last.
bool next_segment(std::string_view& path, std::string_view& segment) {
  const auto slash = path.find('/');
  segment = path.substr(0, slash);
  path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  return slash != std::string_view::npos;
}

}  // namespace

const Route* RouteTree::Path::find(std::string_view method) const {
  const bool head = method == "HEAD";
  for (const Route* const route : routes) {
    if (head ? route->head : route->method == method) {
      return route;
    }
  }
  return nullptr;
}

void RouteTree::add(const Route& route, std::string_view placeholder, std::string_view prefix) {
  std::string path(route.path);
  if (!placeholder.empty() && path.starts_with(placeholder)) {
    path.replace(0, placeholder.size(), prefix);
  }
  AG_CHECK(path.starts_with('/'));
  std::string_view left = std::string_view(path).substr(1), segment;
  Node* node = &root_;
  for (bool more = true; more;) {
    more = next_segment(left, segment);
    if (is_any(segment)) {
      AG_CHECK(!is_rest(segment) || !more);
      auto& child = is_rest(segment) ? node->rest : node->any;
      if (!child) {
        child = std::make_unique<Node>();
      }
      node = child.get();
      continue;
    }
    auto child = std::find_if(node->children.begin(), node->children.end(), [&](const Node& n) {
      return n.segment == segment;
    });
    if (child == node->children.end()) {
      node->children.emplace_back().segment = segment;
      child = std::prev(node->children.end());
    }
    node = &*child;
  }
  AG_CHECK(node->path.find(route.method) == nullptr);
  if (node->path.meter == nullptr) {
    // Where files lie is a matter of the configuration, and no name for a metric.
    node->path.meter =
        &http::RequestMeter::of(route.path.starts_with('/') ? path : std::string(route.path));
  }
  node->path.meter->expect(route.method);
  node->path.routes.push_back(&route);
  node->path.allow += node->path.allow.empty() ? "" : ", ";
  node->path.allow += route.method;
  node->path.allow += route.head ? ", HEAD" : "";
}

const RouteTree::Node* RouteTree::walk(std::string_view path,
                                       PathParameters& parameters,
                                       std::size_t& count) const {
  if (!path.starts_with('/')) {
    return nullptr;
  }
  path.remove_prefix(1);
  const Node* node = &root_;
  std::string_view segment;
  for (bool more = true; more;) {
    const std::string_view left = path;
    more = next_segment(path, segment);
    const auto child = std::find_if(node->children.begin(),
                                    node->children.end(),
                                    [&](const Node& n) { return n.segment == segment; });
    if (child != node->children.end()) {
      node = &*child;
    } else if (node->any) {
      node = node->any.get();
      parameters.at(count++) = segment;
    } else if (node->rest) {
      node = node->rest.get();
      parameters.at(count++) = left;
      more = false;
    } else {
      return nullptr;
    }
  }
  return node->path.routes.empty() ? nullptr : node;
}

const RouteTree::Path* RouteTree::find(std::string_view path, PathParameters& parameters) const {
  std::size_t count = 0;
  const Node* const node = walk(path, parameters, count);
  if (node == nullptr) {
    return nullptr;
  }
  const auto accepts = node->path.routes.front()->accepts;
  return accepts == nullptr || accepts(parameters.at(count - 1)) ? &node->path : nullptr;
}

bool RouteTree::is_read_by_others(std::string_view path) const {
  PathParameters parameters;
  std::size_t count = 0;
  const Node* const node = walk(path, parameters, count);
  return path.starts_with(kOfAnySite) ||
         (node != nullptr && node->path.routes.front()->cross_origin);
}

Dispatcher::Dispatcher(const RouteTree& tree,
                       Parts& parts,
                       Authenticators authenticators,
                       RateLimiter& limiter,
                       const Config& config)
    : tree_(tree),
      parts_(parts),
      authenticators_(authenticators),
      limiter_(limiter),
      no_proxies_(config.trusted_proxies.empty()),
      own_origin_(parse_origin(config.public_url).value_or(Origin()).text) {}

void Dispatcher::handle(http::Exchange exchange) {
  const http::Request& request = exchange.request();
  if (no_proxies_ && request.has_header("x-forwarded-for")) {
    warn_forwarded();
  }
  PathParameters parameters;
  const RouteTree::Path* const path = tree_.find(request.path, parameters);
  if (path == nullptr) {
    refuse(exchange, not_found(), tree_.is_read_by_others(request.path));
    return;
  }
  exchange.meter(*path->meter);
  const Route* const route = path->find(request.method);
  note_asked(exchange, route != nullptr ? *route : *path->routes.front());
  if (route == nullptr) {
    const bool cross_origin = path->routes.front()->cross_origin;
    if (request.method == "OPTIONS") {
      answer_options(exchange, path->allow, cross_origin);
    } else {
      refuse(exchange, method_not_allowed(path->allow), cross_origin, path->allow);
    }
    return;
  }
  if (route->late != nullptr) {
    if (const auto error = route->late(parts_, exchange.received_at())) {
      tell_refusal(503, refuse(exchange, *error, route->cross_origin));
      rest_between_refusals();
      return;
    }
  }
  admit(Call(std::move(exchange), *route, parameters));
}

// A page of another site sends the cookie of ours along.
bool Dispatcher::is_own(const Route& route, const http::Request& request) const {
  if (route.cross_origin) {
    return true;
  }
  const auto said = [&](std::string_view name) {
    return request.has_header(name) ? std::optional(request.joined_headers(name)) : std::nullopt;
  };
  const auto fetch_site = said("sec-fetch-site"), origin = said("origin");
  return is_own_request(request.method, fetch_site, origin, own_origin_);
}

// Whoever has no key is counted by address: who asks for files, also for names that do not exist,
// and who tries to sign in.
void Dispatcher::admit(Call call) {
  const Route& route = call.route();
  if (!is_own(route, call.request())) {
    call.fail(cross_site_request());
    return;
  }
  if (route.access == Access::kPublic) {
    const IpAddress& client = call.request().client;
    RateDecision decision{.allowed = true};
    if (route.rate == RateClass::kFile) {
      decision = limiter_.take_file(client);
    } else if (route.rate == RateClass::kSignIn) {
      decision = limiter_.take_sign_in(client);
    }
    if (!decision.allowed) {
      count_limited(limit_of(route.rate));
      call.fail(rate_limit_exceeded(decision.retry_after));
      return;
    }
    route.handle(parts_, std::move(call));
    return;
  }
  const bool by_session = route.access == Access::kSession;
  Authenticator& authenticator = by_session ? *authenticators_.sessions : authenticators_.keys;
  const Authenticator::Wish wish{.rate = route.rate,
                                 .api_access = route.access == Access::kApiAccess};
  Authenticator::Lookup lookup;
  if (const auto judgement = authenticator.judge(call.request(), wish, lookup)) {
    judged(std::move(call), *judgement);
    return;
  }
  authenticator.look_up(
      lookup, [this, call = std::move(call)](const Authenticator::Judgement& judgement) mutable {
        judged(std::move(call), judgement);
      });
}

// The key or session (401), its rate (429), its rights (403): the one place that says who may.
void Dispatcher::judged(Call call, const Authenticator::Judgement& judgement) {
  using Verdict = Authenticator::Verdict;
  const Route& route = call.route();
  switch (judgement.verdict) {
    case Verdict::kUnavailable:
      call.fail(service_unavailable());
      return;
    case Verdict::kInvalid:
      call.fail(route.access == Access::kSession ? not_signed_in() : invalid_api_key());
      return;
    case Verdict::kLimited:
      count_limited(Limit::kUnknownKey);
      call.fail(rate_limit_exceeded(judgement.retry_after));
      return;
    case Verdict::kOverRate:
      count_limited(limit_of(route.rate));
      call.rate_headers_ = limiter_.headers(route.rate, judgement.rate);
      call.fail(rate_limit_exceeded(judgement.rate.retry_after));
      return;
    case Verdict::kValid:
      break;
  }
  call.key_ = judgement.key;
  note_asked(call.exchange(), route, call.key_);
  call.exchange().charge(call.holder());
  const RateDecision decision = limiter_.take(call.key_.counted_as(), call.key_.user, route.rate);
  call.rate_headers_ = limiter_.headers(route.rate, decision);
  if (!decision.allowed) {
    count_limited(limit_of(route.rate));
    call.fail(rate_limit_exceeded(decision.retry_after));
  } else if (route.access == Access::kSession && is_other_account(call.request(), call.key_.user)) {
    call.fail(other_account());
  } else if (route.access == Access::kApiAccess && !call.key_.api_access) {
    call.fail(api_access_required());
  } else if (route.scope && !call.key_.scopes.has(*route.scope)) {
    call.fail(route.rate == RateClass::kCreate ? generate_scope_required()
                                               : insufficient_scope(scope_name(*route.scope)));
  } else {
    route.handle(parts_, std::move(call));
  }
}

}  // namespace audiogen::api
