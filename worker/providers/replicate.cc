#include "worker/providers/replicate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "worker/providers/models.h"
#include "worker/providers/transport/blame.h"
#include "worker/providers/transport/direct.h"
#include "worker/providers/transport/wire.h"

namespace audiogen::replicate {
namespace {

constexpr const char* kIdHeader = "x-request-id";

// A text, the first of a list, or a member of an object.
std::string file_of(const ProviderEntry& entry, const rapidjson::Value& output) {
  if (output.IsString()) {
    return {output.GetString(), output.GetStringLength()};
  }
  if (output.IsArray() && !output.Empty() && output[0].IsString()) {
    return {output[0].GetString(), output[0].GetStringLength()};
  }
  return models::file_of(entry, output);
}

// Seconds of the machine.
std::optional<Thousandths> billed_of(const rapidjson::Value& body) {
  const rapidjson::Value* const metrics = wire::member(body, "metrics");
  return metrics == nullptr ? std::nullopt : wire::thousandths_in(*metrics, "predict_time");
}

ProviderFault fault_of(const http::ClientResponse& response, std::string_view code) {
  return wire::fault(wire::fault_of_status(response.status), response, code, kIdHeader);
}

// "- input.voice: voice must be one of …", of which the name alone is read, or the same as a list.
std::string_view bad_input(const rapidjson::Value& body) {
  const rapidjson::Value* const fields = wire::member(body, "invalid_fields");
  std::string_view name;
  if (fields != nullptr && fields->IsArray() && !fields->Empty()) {
    name = wire::text_of((*fields)[0], "field");
  } else if (name = wire::text_of(body, "detail"); name.starts_with("- ")) {
    name = name.substr(2, name.find(':') - 2);
  } else {
    return "";
  }
  constexpr std::string_view kInput = "input";
  if (name.starts_with(kInput)) {
    name.remove_prefix(std::min(name.size(), kInput.size() + 1));
  }
  return name;
}

// Of a job that was not taken.
ProviderFault refusal_of(const ProviderEntry& entry, http::ClientResponse response) {
  ProviderFault out = fault_of(response, "");
  rapidjson::Document body;
  if (!blame::is_refusal(response.status)) {
    return out;
  }
  out.fault = Fault::kBrokenByInput;
  if (wire::parse_object(response.body, body)) {
    out.fault = models::blame(entry, bad_input(body));
    // "Invalid version or not permitted": the model's.
    if (out.fault == Fault::kBrokenByInput) {
      out.fault = blame::by_words(wire::text_of(body, "title"), "");
    }
  }
  return out;
}

class Format final : public models::Format {
 public:
  http::ClientRequest submit(const ProviderEntry& entry,
                             const ProviderRequest& request,
                             std::chrono::seconds left) const override {
    // "owner/name:version" is asked for by version, "owner/name" by its own path.
    const bool versioned = entry.model.find(':') != std::string::npos;
    const std::string body = (versioned ? R"({"version":")" + entry.model + R"(",)" : "{") +
                             R"("input":)" + models::input(entry, request) + "}";
    auto out = post_json(
        entry, entry.base_url + (versioned ? "" : "/models/" + entry.model) + "/predictions", body);
    out.headers.push_back("Cancel-After: " + std::to_string(left.count()) + "s");
    return out;
  }

  std::string authorization(const ProviderEntry& entry) const override {
    return "Authorization: Bearer " + entry.api_key;
  }

  const char* cancel_method() const override { return "POST"; }

  Result<Ticket, ProviderFault> submitted(const ProviderEntry& entry,
                                          http::ClientResponse response) const override {
    if (response.status < 200 || response.status > 202) {
      return refusal_of(entry, std::move(response));
    }
    rapidjson::Document body;
    Ticket ticket;
    if (wire::parse_object(response.body, body)) {
      if (const rapidjson::Value* const urls = wire::member(body, "urls"); urls != nullptr) {
        ticket.status_url = wire::text_of(*urls, "get");
        ticket.cancel_url = wire::text_of(*urls, "cancel");
      }
    }
    if (ticket.status_url.empty()) {
      // It may well have begun.
      return wire::fault(Fault::kUnknownOutcome, response, "no_ticket", kIdHeader);
    }
    return ticket;
  }

  Progress status(const ProviderEntry& entry, http::ClientResponse response) const override {
    rapidjson::Document body;
    const bool readable = wire::parse_object(response.body, body);
    const std::string_view status = readable ? wire::text_of(body, "status") : "";
    if (response.status == 200 && (status == "starting" || status == "processing")) {
      return Waiting{};
    }
    if (response.status == 200 && status == "succeeded") {
      const rapidjson::Value* const output = wire::member(body, "output");
      if (std::string file = output == nullptr ? "" : file_of(entry, *output); !file.empty()) {
        return FileAt{.url = std::move(file), .billed = billed_of(body)};
      }
      ProviderFault fault = wire::fault(Fault::kTryNext, response, "no_audio", kIdHeader);
      fault.made = true;
      fault.billed = billed_of(body);
      return Ended{std::move(fault)};
    }
    if (response.status == 200 &&
        (status == "failed" || status == "canceled" || status == "aborted")) {
      // A model that failed would fail again; its words are not for us to pass on. For how long it
      // was at work until then is billed.
      ProviderFault fault = wire::fault(Fault::kTryNext, response, status, kIdHeader);
      fault.billed = billed_of(body);
      return Ended{std::move(fault)};
    }
    if (response.status < 400 || wire::leaves_job_open(response.status)) {
      return Unclear{wire::retry_after_of(response)};
    }
    return fault_of(response, "");
  }

  Progress result(const ProviderEntry& entry, http::ClientResponse response) const override {
    return status(entry, std::move(response));
  }
};
constinit const Format kFormat;

void check(ProviderEntry& entry, const Complain& complain) {
  if (!entry.model.empty() && !models::is_path(entry.model, ":")) {
    complain("model must be <owner>/<name> or <owner>/<name>:<version>");
  }
}

}  // namespace

constinit const ProviderKind kKind = {
    .name = "replicate",
    .about = "any model of Replicate",
    .base_url = "https://api.replicate.com/v1",
    .timeout = std::chrono::seconds(300),
    .makes = Makes::kScene,
    .needs_key = true,
    .reports = PriceUnit::kComputeSecond,
    .options = models::kOptions,
    .check = &check,
    .promise = &models::promise,
    .format = &kFormat,
};

}  // namespace audiogen::replicate
