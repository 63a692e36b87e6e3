// The generation resource, as clients read it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/config.h"
#include "common/base/json.h"
#include "common/blob/link_signer.h"
#include "common/domain/estimate.h"
#include "common/domain/outlook.h"
#include "common/domain/task.h"

namespace audiogen::api {

struct WireNames {
  std::string model;                               // svc-audio-1.0
  std::string cdn_url;                             // Without a trailing slash.
  std::optional<LinkSigner> links = std::nullopt;  // Set: output.url is signed and expires.
  std::chrono::seconds retention{0};               // 0: files stay for ever.
};

WireNames wire_names(const Config& config);
// The answer to a question what a request would cost, and when it would begin, if that is known.
std::string render_estimate(const Estimate& estimate, const std::optional<Spread>& start_in);

// The members that say when a task is probably done, of an object that is begun and ended
// elsewhere.
void write_prospect(JsonWriter& json, const Prospect& prospect);

// Why a task failed, in the words of the interface. Views of the task, or of the program's own.
struct TaskFailure {
  std::string_view code, message;
  bool retriable;
};
TaskFailure failure_of(const TaskView& task);

// Which members a resource has: those of the interface, which the answers to a creation and to a
// poll never go beyond, as clients' own types were written by it; or also until when the file is
// kept, or since when it is gone.
enum class Members { kInterface, kAll };

// The generation resource of a task.
std::string render_task(const TaskView& task, const WireNames& names, Members members);

// The same, what was asked for and by which key, if that is known: an item of a list. `request` is
// the canonical JSON, empty of a deleted task.
std::string render_listed(const TaskView& task,
                          std::string_view request,
                          std::optional<KeyId> key,
                          const WireNames& names);

}  // namespace audiogen::api
