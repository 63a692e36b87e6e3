#include "api/catalogue/catalogue.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "api/files/files.h"
#include "api/server/etag.h"
#include "common/base/json.h"
#include "common/blob/blob_errors.h"
#include "common/domain/pricing.h"
#include "common/domain/request.h"
#include "common/domain/voices.h"

namespace audiogen::api {
namespace {

// When the model was published: 2025-11-20T00:00:00Z.
constexpr std::int64_t kModelCreated = 1'763'596'800;

// Milliseconds of audio that the price list shows the price of: a sentence, whose price is the
// least one, a quarter of a minute, the longest.
constexpr std::array<std::int64_t, 3> kPriced = {
    1'724, 15'000, std::int64_t{kAudioSecondsMax} * 1000};

// How long a preview may be unknown after it was rendered, so that a list costs no look at the
// disk.
constexpr auto kLookEvery = std::chrono::seconds(1);

// A list that is always whole; `items` writes them.
template <class Items>
std::string list(Items items) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("object", "list").key("data").begin_array();
  items(json);
  json.end_array().member("has_more", false).key("next_cursor").null().end_object();
  return out;
}

// `has_preview` by the order of voices().
std::string render_voices(const std::string& url, const std::vector<bool>& has_preview) {
  return list([&](JsonWriter& json) {
    auto has = has_preview.begin();
    for (const Voice& voice : voices()) {
      json.begin_object();
      json.member("id", voice.id).member("object", "voice").member("name", voice.name);
      json.key("languages").begin_array();
      if (!voice.language.empty()) {
        json.value(voice.language);
      }
      json.end_array();
      json.member("description", voice.description);
      if (*has++) {
        json.member("preview_url", url + std::string(voice.id) + "/preview");
      } else {
        json.key("preview_url").null();
      }
      json.end_object();
    }
  });
}

std::string render_models(const Config& config) {
  return list([&](JsonWriter& json) {
    json.begin_object();
    json.member("id", config.model_name()).member("object", "model");
    json.member("created", kModelCreated).member("owned_by", config.brand);
    json.member("name", "Audio 1.0");
    json.member("description", "Speech and audio scenes from a prompt, with optional references.");
    json.member("prompt_max_characters", kPromptMax);
    json.member("audio_references_max", kAudioReferencesMax);
    json.member("audio_seconds_max", kAudioSecondsMax);
    json.key("output_formats").begin_array();
    for (const OutputFormat format : kOutputFormats) {
      json.value(format_name(format));
    }
    json.end_array().key("sample_rates").begin_array();
    for (const int rate : kSampleRates) {
      json.value(rate);
    }
    json.end_array().end_object();
  });
}

std::string render_pricing(const Config& config) {
  constexpr std::int64_t kMinute = 60'000;
  const Units longest = charge_for(std::int64_t{kAudioSecondsMax} * 1000);
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("object", "pricing").member("model", config.model_name());
  json.key("credits_per_minute").raw(format_credits(charge_for(kMinute)));
  json.key("min_credits").raw(format_credits(kChargeMin));
  json.key("max_credits").raw(format_credits(longest));
  json.key("reserved_credits").raw(format_credits(kHoldAmount));
  json.member("audio_seconds_max", kAudioSecondsMax).member("failed_credits", 0);
  json.key("examples").begin_array();
  for (const std::int64_t ms : kPriced) {
    json.begin_object().key("audio_seconds").raw(format_seconds(ms));
    json.key("credits").raw(format_credits(charge_for(ms))).end_object();
  }
  json.end_array().end_object();
  return out;
}

}  // namespace

Catalogue::Document::Document(std::string text) : json(std::move(text)), etag(strong_etag(json)) {}

std::shared_ptr<const Catalogue::Document> Catalogue::VoiceList::now() {
  const MutexLock lock(mutex_);
  const auto at = std::chrono::steady_clock::now();
  if (!looked_at_ || at - *looked_at_ >= kLookEvery) {
    std::vector<bool> which = previews_.which();
    if (document_ == nullptr || which != which_) {
      document_ = std::make_shared<const Document>(render_voices(url_, which));
      which_ = std::move(which);
    }
    looked_at_ = at;
  }
  return document_;
}

Catalogue::Catalogue(const Config& config)
    : previews_(config.voice_previews_dir),
      voice_list_(config, previews_),
      models_(render_models(config)),
      pricing_(render_pricing(config)) {}

void Catalogue::preview(const Call& call) const {
  auto preview = counted(BlobOp::kRead, previews_.open(call.parameter(0)));
  if (!preview) {
    tell_unreadable(preview.error());
    call.fail(service_unavailable());
    return;
  }
  if (!*preview) {
    call.fail({ApiErrorCode::kNotFound, "There is no preview of this voice.", std::nullopt});
    return;
  }
  Preview& found = **preview;
  send_file(call.exchange(),
            call.route().cross_origin,
            {.fd = std::move(found.fd),
             .size = found.size,
             .modified = found.modified,
             .etag = std::move(found.etag),
             .content_type = "audio/mpeg",
             .caching = "public, max-age=3600"});
}

}  // namespace audiogen::api
