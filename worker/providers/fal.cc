#include "worker/providers/fal.h"

#include <string>
#include <utility>

#include "worker/providers/models.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::fal {
namespace {

constexpr const char* kIdHeader = "x-fal-request-id";

std::string error_type(const rapidjson::Value& body) {
  if (const std::string_view type = wire::text_of(body, "error_type"); !type.empty()) {
    return std::string(type);
  }
  const rapidjson::Value* const detail = wire::member(body, "detail");
  if (detail != nullptr && detail->IsArray() && !detail->Empty()) {
    return std::string(wire::text_of((*detail)[0], "type"));
  }
  return "";
}

// Where the input is not liked: whose it is, by its name, or by the error's where none is named. A
// job that has ended may say so with 200, as it says everything else that ended it: there the name
// alone counts.
Fault blamed(const ProviderEntry& entry,
             const http::ClientResponse& response,
             const rapidjson::Value& body,
             Fault fault) {
  const bool refused = blame::is_refusal(response.status);
  if (fault != Fault::kTryNext || (!refused && response.status != 200)) {
    return fault;
  }
  const rapidjson::Value* const detail = wire::member(body, "detail");
  const std::string bad = detail != nullptr ? wire::bad_member(*detail) : "";
  if (!bad.empty()) {
    return models::blame(entry, bad);
  }
  return refused ? blame::by_words(error_type(body), "") : fault;
}

ProviderFault fault_of(const http::ClientResponse& response, const std::string& type) {
  return wire::fault(classify(response, type), response, type, kIdHeader);
}

// Our own limit on the wait, which is over.
bool expired(const http::ClientResponse& response) {
  return response.status == 504 && response.header("x-fal-request-timeout-type") == "user";
}

// An answer about a job that says neither how it stands nor, as far as it goes, what ended it.
Progress unclear_or_fault(const ProviderEntry& entry,
                          const http::ClientResponse& response,
                          const rapidjson::Value* body) {
  const std::string type = body != nullptr ? error_type(*body) : "";
  ProviderFault fault = fault_of(response, type);
  if (expired(response)) {
    return Ended{std::move(fault)};
  }
  // A success that says nothing came from something in between.
  if (wire::leaves_job_open(response.status) || response.status < 400 ||
      response.header("x-fal-retryable") == "true") {
    return Unclear{wire::retry_after_of(response)};
  }
  if (body != nullptr) {
    fault.fault = blamed(entry, response, *body, fault.fault);
  }
  return fault;
}

// What ended a job, in the provider's own words.
Ended ended(const ProviderEntry& entry,
            const http::ClientResponse& response,
            const rapidjson::Value& body,
            const std::string& type) {
  ProviderFault fault = fault_of(response, type);
  fault.fault = blamed(entry, response, body, fault.fault);
  return {std::move(fault)};
}

class Format final : public models::Format {
 public:
  http::ClientRequest submit(const ProviderEntry& entry,
                             const ProviderRequest& request,
                             std::chrono::seconds left) const override {
    auto out = post_json(entry, entry.base_url + "/" + entry.model, models::input(entry, request));
    // Not started by then: nobody waits for it any more.
    out.headers.push_back("X-Fal-Request-Timeout: " + std::to_string(left.count()));
    return out;
  }

  std::string authorization(const ProviderEntry& entry) const override {
    return "Authorization: Key " + entry.api_key;
  }

  const char* cancel_method() const override { return "PUT"; }

  Result<Ticket, ProviderFault> submitted(const ProviderEntry& entry,
                                          http::ClientResponse response) const override {
    rapidjson::Document body;
    const bool readable = wire::parse_object(response.body, body);
    if (response.status != 200 && response.status != 202) {
      ProviderFault fault = fault_of(response, readable ? error_type(body) : "");
      if (readable) {
        fault.fault = blamed(entry, response, body, fault.fault);
      } else if (blame::is_refusal(response.status) && fault.fault == Fault::kTryNext) {
        fault.fault = Fault::kBrokenByInput;
      }
      return fault;
    }
    Ticket ticket;
    if (readable) {
      ticket.status_url = wire::text_of(body, "status_url");
      ticket.result_url = wire::text_of(body, "response_url");
      ticket.cancel_url = wire::text_of(body, "cancel_url");
    }
    if (ticket.status_url.empty() || ticket.result_url.empty()) {
      // It may well have begun.
      return wire::fault(Fault::kUnknownOutcome, response, "no_ticket", kIdHeader);
    }
    return ticket;
  }

  Progress status(const ProviderEntry& entry, http::ClientResponse response) const override {
    rapidjson::Document body;
    if (!wire::parse_object(response.body, body)) {
      return unclear_or_fault(entry, response, nullptr);
    }
    const std::string_view status = wire::text_of(body, "status");
    if (status == "IN_QUEUE" || status == "IN_PROGRESS") {
      return Waiting{};
    }
    const std::string type = error_type(body);
    if (status == "COMPLETED") {
      const rapidjson::Value* const error = wire::member(body, "error");
      // Completed is not succeeded.
      return type.empty() && (error == nullptr || error->IsNull())
                 ? Progress(ResultReady{})
                 : ended(entry, response, body, type.empty() ? "failed" : type);
    }
    return unclear_or_fault(entry, response, &body);
  }

  Progress result(const ProviderEntry& entry, http::ClientResponse response) const override {
    rapidjson::Document body;
    if (!wire::parse_object(response.body, body)) {
      return unclear_or_fault(entry, response, nullptr);
    }
    const std::string_view status = wire::text_of(body, "status");
    if (status == "IN_QUEUE" || status == "IN_PROGRESS") {
      return Waiting{};
    }
    // Below 500 it is the queue that answers for now, whatever type it gives that: the result is
    // still there.
    if (response.status < 500 && wire::leaves_job_open(response.status)) {
      return unclear_or_fault(entry, response, &body);
    }
    if (response.status != 200) {
      // With 500 the app's own answer: it has failed.
      const std::string type = error_type(body);
      return type.empty() && response.status != 500 ? unclear_or_fault(entry, response, &body)
                                                    : ended(entry, response, body, type);
    }
    const auto billed = wire::thousandths(response.header("x-fal-billable-units"));
    if (std::string url = models::file_of(entry, body); !url.empty()) {
      return FileAt{.url = std::move(url), .billed = billed};
    }
    ProviderFault fault = wire::fault(Fault::kTryNext, response, "no_audio", kIdHeader);
    fault.made = true;
    fault.billed = billed;
    return Ended{std::move(fault)};
  }
};
constinit const Format kFormat;

void check(ProviderEntry& entry, const Complain& complain) {
  if (!entry.model.empty() && !models::is_path(entry.model, "")) {
    complain("model must be <owner>/<app>");
  }
}

}  // namespace

Fault classify(const http::ClientResponse& response, std::string_view type) {
  if (type == "content_policy_violation") {
    return Fault::kRejected;
  }
  if (response.status == 429) {
    return Fault::kThrottled;
  }
  if (response.header("x-fal-retryable") == "true") {
    return Fault::kRetrySame;
  }
  switch (response.status) {
    case 408:
    case 502:
    case 503:
      return Fault::kRetrySame;
    case 504:
      return expired(response) ? Fault::kTryNext : Fault::kRetrySame;
    case 500:
      return Fault::kTryNext;  // Its own queue does not repeat it either.
    default:
      return wire::fault_of_status(response.status);
  }
}

constinit const ProviderKind kKind = {
    .name = "fal",
    .about = "any model of fal's queue",
    .base_url = "https://queue.fal.run",
    .timeout = std::chrono::seconds(300),
    .makes = Makes::kScene,
    .needs_key = true,
    .reports = PriceUnit::kBillableUnit,
    .options = models::kOptions,
    .check = &check,
    .promise = &models::promise,
    .format = &kFormat,
};

}  // namespace audiogen::fal
