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
#include "common/base/blocking_pool.h"
#include "common/base/config.h"
#include "common/base/mutex.h"
#include "common/domain/voices.h"

namespace audiogen::api {

// Rendered once: nothing of it changes while the program runs, but which voices have a preview.
class Catalogue {
 public:
  explicit Catalogue(const Config& config);

  // Which of them have a preview is looked up once a second, for one who asks: he waits for the
  // disk, and the others get the list as it was.
  void voices(const Call& call) const;
  // The recording of the voice that the route names; 404 where there is none. Of the disk as well.
  void preview(const Call& call) const;
  void models(const Call& call) const { serve(call, models_); }
  void pricing(const Call& call) const { serve(call, pricing_); }
  // False: the disk has not answered within `limit`, and somebody still waits for it.
  bool stop(std::chrono::milliseconds limit) { return disk_.stop(limit); }

 private:
  struct Document {
    explicit Document(std::string text);
    std::string json;
    std::string etag;
  };
  void send_preview(const Call& call) const;
  static void serve(const Call& call, const Document& document) {
    call.answer_public(document.json, document.etag);
  }

  // The list of voices, rendered again when there are other previews than before.
  class VoiceList {
   public:
    VoiceList(const Config& config, const VoicePreviews& previews)
        : url_(config.public_url + "/api/v1/voices/"),
          previews_(previews),
          which_(audiogen::voices().size(), false) {}
    std::shared_ptr<const Document> last();
    // True: whoever asked is to look, once.
    bool is_due();
    std::shared_ptr<const Document> look();  // Waits for the disk.
    void looked();

   private:
    const std::string url_;
    const VoicePreviews& previews_;
    Mutex mutex_;
    bool looking_ GUARDED_BY(mutex_) = false;
    std::optional<std::chrono::steady_clock::time_point> looked_at_ GUARDED_BY(mutex_);
    std::vector<bool> which_ GUARDED_BY(mutex_);  // In the order of voices().
    std::shared_ptr<const Document> document_ GUARDED_BY(mutex_);
  };

  const VoicePreviews previews_;
  mutable VoiceList voice_list_;
  mutable BlockingPool disk_;  // Of the previews, which need not be where the audio is.
  const Document models_, pricing_;
};

}  // namespace audiogen::api
