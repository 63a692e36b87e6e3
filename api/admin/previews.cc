#include "api/admin/previews.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include <rapidjson/document.h>
#include <rapidjson/pointer.h>

#include "common/base/ids.h"
#include "common/base/json.h"
#include "common/domain/voices.h"
#include "common/http/client.h"

namespace audiogen::api {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLimit = std::chrono::minutes(10);
constexpr auto kCallLimit = std::chrono::seconds(30);  // A status read waits for 20.
constexpr int kTriesMax = 5;  // Of a call that does not get through, one a second.
constexpr std::size_t kFileMax = 4U << 20U;

std::string text_at(const rapidjson::Document& document, const char* pointer) {
  const auto* const found = rapidjson::Pointer(pointer).Get(document);
  return found != nullptr && found->IsString() ? found->GetString() : "";
}

// What `status` and `body` say went wrong.
Error refused(const http::ClientResponse& response) {
  rapidjson::Document body;
  body.Parse(response.body.c_str());
  const std::string message = text_at(body, "/error/message");
  return {"HTTP " + std::to_string(response.status) + (message.empty() ? "" : ": " + message)};
}

// Seconds of Retry-After, one at least.
std::chrono::seconds retry_after(const http::ClientResponse& response) {
  const std::string_view text = response.header("retry-after");
  int seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::chrono::seconds(std::clamp(seconds, 1, 60));
}

class Maker {
 public:
  Maker(const PreviewOrder& order, const VoicePreviews& previews)
      : order_(order), previews_(previews) {}

  // The id of a task that makes the sample.
  Result<std::string> begin(const Voice& voice) {
    http::ClientRequest request = to("/api/v1/audio/generations");
    request.method = "POST";
    request.headers.emplace_back("Content-Type: application/json");
    // Sent again after a cut answer it is the same task.
    request.headers.push_back("Idempotency-Key: voice-preview-" + random_base32(26));
    JsonWriter json(request.body);
    json.begin_object().member("model", order_.model).member("prompt", voice.sample);
    json.member("voice", voice.id).member("output_format", "mp3").end_object();
    const auto response = answered(request);
    if (!response) {
      return response.error();
    }
    return response->status == 202 ? Result<std::string>(text_at(parsed(*response), "/id"))
                                   : refused(*response);
  }

  Result<Done> finish(const Voice& voice, const std::string& id) {
    const auto address = output_of(id);
    if (!address) {
      return address.error();
    }
    http::ClientRequest request;
    request.url = address->starts_with(order_.public_url + "/")
                      ? order_.url + address->substr(order_.public_url.size())
                      : *address;
    request.body_max = kFileMax;
    const auto file = answered(request);
    if (!file) {
      return file.error();
    }
    if (file->status != 200 || file->body.empty()) {
      return Error{"its file was answered with HTTP " + std::to_string(file->status)};
    }
    return previews_.keep(voice.id, file->body);
  }

 private:
  http::ClientRequest to(const std::string& path) const {
    http::ClientRequest request;
    request.url = order_.url + path;
    request.headers.push_back("Authorization: Bearer " + order_.key);
    request.total_timeout = kCallLimit;
    return request;
  }

  static rapidjson::Document parsed(const http::ClientResponse& response) {
    rapidjson::Document out;
    out.Parse(response.body.c_str());
    return out;
  }

  // Where the audio of a task is, once it is there.
  Result<std::string> output_of(const std::string& id) {
    http::ClientRequest request = to("/api/v1/audio/generations/" + id);
    request.headers.emplace_back("Prefer: wait=20");
    while (Clock::now() < end_) {
      const auto response = answered(request);
      if (!response) {
        return response.error();
      }
      if (response->status != 200) {
        return refused(*response);
      }
      const rapidjson::Document task = parsed(*response);
      const std::string status = text_at(task, "/status");
      if (status == "succeeded") {
        return text_at(task, "/output/url");
      }
      if (status == "failed" || status == "canceled") {
        return Error{id + " " + status + ": " + text_at(task, "/error/message")};
      }
      if (response->header("preference-applied").empty()) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
      }
    }
    return Error{id + " took too long"};
  }

  // An answer that asking again would not change.
  Result<http::ClientResponse> answered(const http::ClientRequest& request) {
    for (int failures = 0;;) {
      const auto response = sent(request);
      if (!response && ++failures == kTriesMax) {
        end_ = Clock::now();  // Nor will the others get through.
      }
      if (response && response->status != 429 && response->status != 503) {
        return *response;
      }
      if (Clock::now() >= end_) {
        return response ? refused(*response)
                        : Error{"not reached (--url): " + response.error().detail};
      }
      std::this_thread::sleep_for(response ? retry_after(*response) : std::chrono::seconds(1));
    }
  }

  Result<http::ClientResponse, http::ClientError> sent(const http::ClientRequest& request) {
    using Answer = Result<http::ClientResponse, http::ClientError>;
    const auto answer = std::make_shared<std::promise<Answer>>();
    auto future = answer->get_future();
    const auto call = client_.start(request, [answer](Answer came) { answer->set_value(came); });
    return future.get();
  }

  const PreviewOrder& order_;
  const VoicePreviews& previews_;
  Clock::time_point end_ = Clock::now() + kLimit;
  http::Client client_;
};

}  // namespace

std::vector<PreviewMade> make_previews(const PreviewOrder& order,
                                       const VoicePreviews& previews,
                                       const std::vector<std::string_view>& wanted) {
  struct Begun {
    const Voice* voice;
    Result<std::string> task;
  };
  Maker maker(order, previews);
  std::vector<Begun> begun;
  for (const Voice& voice : voices()) {
    if (std::find(wanted.begin(), wanted.end(), voice.id) != wanted.end()) {
      begun.push_back({&voice, maker.begin(voice)});
    }
  }
  std::vector<PreviewMade> out;
  for (const Begun& one : begun) {
    const auto kept =
        one.task ? maker.finish(*one.voice, *one.task) : Result<Done>(one.task.error());
    out.push_back({std::string(one.voice->id), kept ? "" : kept.error().message});
  }
  return out;
}

}  // namespace audiogen::api
