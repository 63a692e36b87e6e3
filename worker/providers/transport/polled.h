// Providers that take a job, are asked how it goes and name the address of a file in the end: what
// fal and Replicate share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "worker/providers/entry.h"
#include "worker/providers/transport/dialogue.h"

namespace audiogen {

// The addresses of a job, as the provider named them.
struct Ticket {
  std::string status_url;
  std::string result_url;  // "": the status says it all.
  std::string cancel_url;
};

struct Waiting {};      // Ask again later.
struct ResultReady {};  // Ask at Ticket::result_url.
struct FileAt {
  std::string url;                      // http(s), or data: with base64.
  std::optional<Thousandths> billed{};  // As the provider says.
};
// Ours to take as far as it goes: nothing readable about the job, for a reason that may pass.
struct Unclear {
  std::optional<std::chrono::seconds> retry_after;
};
// The provider says that the job has come to nothing.
struct Ended {
  ProviderFault fault;
};
// A fault by itself: it cannot be asked about, though it may go on.
using Progress = std::variant<Waiting, ResultReady, FileAt, Unclear, Ended, ProviderFault>;

// The pure functions in which such providers differ. A constant of the program.
class PolledFormat {
 public:
  constexpr PolledFormat() = default;
  virtual ~PolledFormat() = default;
  PolledFormat(const PolledFormat&) = delete;
  PolledFormat& operator=(const PolledFormat&) = delete;
  // Without authorization(), which is added to everything but the file's download.
  virtual http::ClientRequest submit(const ProviderEntry& entry,
                                     const ProviderRequest& request,
                                     std::chrono::seconds left) const = 0;
  virtual std::string authorization(const ProviderEntry& entry) const = 0;
  virtual const char* cancel_method() const = 0;
  virtual Result<Ticket, ProviderFault> submitted(const ProviderEntry& entry,
                                                  http::ClientResponse response) const = 0;
  virtual Progress status(const ProviderEntry& entry, http::ClientResponse response) const = 0;
  virtual Progress result(const ProviderEntry& entry, http::ClientResponse response) const = 0;
  // Says of the audio what of the request the model has done itself.
  virtual void mark_applied(const ProviderEntry& entry,
                            const GenerationRequest& request,
                            Audio& audio) const = 0;
};

// One job from submission to its file. The provider's addresses are used only where our key may go:
// on base_url's own origin. `format` lives for ever.
std::unique_ptr<Dialogue> make_polled_dialogue(std::shared_ptr<const ProviderEntry> entry,
                                               const PolledFormat& format,
                                               const ProviderRequest& request);

}  // namespace audiogen
