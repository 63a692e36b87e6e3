// The generation resource, as clients read it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/config.h"
#include "common/blob/link_signer.h"
#include "common/domain/estimate.h"
#include "common/domain/task.h"

namespace audiogen::api {

struct WireNames {
  std::string model;                               // svc-audio-1.0
  std::string cdn_url;                             // Without a trailing slash.
  std::optional<LinkSigner> links = std::nullopt;  // Set: output.url is signed and expires.
  std::chrono::seconds retention{0};               // 0: files stay for ever.
};

WireNames wire_names(const Config& config);
// The answer to a question what a request would cost.
std::string render_estimate(const Estimate& estimate);

// The generation resource of a task.
std::string render_task(const TaskView& task, const WireNames& names);

// The same, what was asked for and by which key, if that is known: an item of a list. `request` is
// the canonical JSON, empty of a deleted task.
std::string render_listed(const TaskView& task,
                          std::string_view request,
                          std::optional<KeyId> key,
                          const WireNames& names);

}  // namespace audiogen::api
