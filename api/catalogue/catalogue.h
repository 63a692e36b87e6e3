// What can be asked for and what it costs: the tables of the domain, as documents for anybody, and
// how the voices sound.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/catalogue/previews.h"
#include "api/server/call.h"
#include "common/base/config.h"
#include "common/base/mutex.h"

namespace audiogen::api {

// Rendered once: nothing of it changes while the program runs, but which voices have a preview.
class Catalogue {
 public:
  explicit Catalogue(const Config& config);

  void voices(const Call& call) const { serve(call, *voice_list_.now()); }
  // The recording of the voice that the route names; 404 where there is none.
  void preview(const Call& call) const;  // Waits for the disk.
  void models(const Call& call) const { serve(call, models_); }
  void pricing(const Call& call) const { serve(call, pricing_); }

 private:
  struct Document {
    explicit Document(std::string text);
    std::string json;
    std::string etag;
  };
  static void serve(const Call& call, const Document& document) {
    call.answer_public(document.json, document.etag);
  }

  // The list of voices, rendered again when there are other previews than before.
  class VoiceList {
   public:
    VoiceList(const Config& config, const VoicePreviews& previews)
        : url_(config.public_url + "/api/v1/voices/"), previews_(previews) {}
    std::shared_ptr<const Document> now();

   private:
    const std::string url_;
    const VoicePreviews& previews_;
    Mutex mutex_;
    std::optional<std::chrono::steady_clock::time_point> looked_at_ GUARDED_BY(mutex_);
    std::vector<bool> which_ GUARDED_BY(mutex_);
    std::shared_ptr<const Document> document_ GUARDED_BY(mutex_);
  };

  const VoicePreviews previews_;
  mutable VoiceList voice_list_;
  const Document models_, pricing_;
};

}  // namespace audiogen::api
