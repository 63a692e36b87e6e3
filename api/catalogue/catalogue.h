// What can be asked for and what it costs: the tables of the domain, as documents for anybody.
#pragma once

#include <string>

#include "api/server/call.h"
#include "common/base/config.h"

namespace audiogen::api {

// Rendered once: nothing of it changes while the program runs.
class Catalogue {
 public:
  explicit Catalogue(const Config& config);

  void voices(const Call& call) const { serve(call, voices_); }
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

  const Document voices_, models_, pricing_;
};

}  // namespace audiogen::api
