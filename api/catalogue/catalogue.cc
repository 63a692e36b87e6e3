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
constexpr std::size_t kDiskThreads = 2, kDiskWaiting = 1'000;

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

std::shared_ptr<const Catalogue::Document> Catalogue::VoiceList::last() {
  const MutexLock lock(mutex_);
  if (document_ == nullptr) {
    document_ = std::make_shared<Document>(render_voices(url_, which_));
  }
  return document_;
}

bool Catalogue::VoiceList::is_due() {
  const MutexLock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  return (!looked_at_ || now - *looked_at_ >= kLookEvery) && !std::exchange(looking_, true);
}

std::shared_ptr<const Catalogue::Document> Catalogue::VoiceList::look() {
  std::vector<bool> which = previews_.which();
  const MutexLock lock(mutex_);
  if (document_ == nullptr || which != which_) {
    document_ = std::make_shared<Document>(render_voices(url_, which));
    which_ = std::move(which);
  }
  return document_;
}

void Catalogue::VoiceList::looked() {
  const MutexLock lock(mutex_);
  looking_ = false;
  looked_at_ = std::chrono::steady_clock::now();
}

void Catalogue::voices(const Call& call) const {
  if (voice_list_.is_due()) {
    const auto look = [this, call] {
      const auto found = voice_list_.look();
      voice_list_.looked();
      serve(call, *found);
    };
    if (disk_.run(look)) {
      return;
    }
    voice_list_.looked();
  }
  serve(call, *voice_list_.last());
}

Catalogue::Catalogue(const Config& config)
    : previews_(config.voice_previews_dir),
      voice_list_(config, previews_),
      disk_(kDiskThreads, kDiskWaiting),
      models_(render_models(config)),
      pricing_(render_pricing(config)) {}

void Catalogue::preview(const Call& call) const {
  on_disk(disk_, call, [this](const Call& asked) { send_preview(asked); });
}

void Catalogue::send_preview(const Call& call) const {
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
