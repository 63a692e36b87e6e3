#include "worker/providers/transport/polled.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "common/base/base64.h"
#include "common/base/crypto.h"
#include "common/domain/call_failure.h"
#include "common/http/redirect.h"
#include "worker/providers/transport/wire.h"

namespace audiogen {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPollFirst{1'000};
constexpr milliseconds kPollMax{5'000};
constexpr double kPollGrowth = 1.5;
constexpr double kPollJitter = 0.2;  // Of the pause, either way: jobs begun together drift apart.
constexpr milliseconds kExchangeMax{20'000};  // For one question about the job.
constexpr milliseconds kDownloadMax{60'000};
// Three files as data: addresses are 40 MB, and the way there may be a slow one.
constexpr std::size_t kSubmitBytesPerSecond = 256U << 10U;
constexpr std::size_t kAnswerMax = 2U << 20U;  // Bytes of JSON; the audio has an address.
// What a job was given may stand in each answer: three files as data: addresses.
constexpr std::size_t kEchoMax = 48U << 20U;
// Unclear answers in a row, at the least, until sight of a job is lost. With the pauses between
// them nearly half a minute.
constexpr int kUnclearLeast = 8;

// So often a file that is not where it was said to be is looked for again, for some five seconds.
constexpr int kNotThereYet = 3;

class PolledDialogue final : public Dialogue {
 public:
  PolledDialogue(std::shared_ptr<const ProviderEntry> entry,
                 const PolledFormat& format,
                 const ProviderRequest& request)
      : entry_(std::move(entry)), format_(format), request_(request) {
    dice_ = sha256(request.request_key);
  }

  Step begin(std::chrono::seconds left) override {
    patience_ = left / 2;
    if (!request_.ticket.empty()) {
      return go_on();
    }
    auto request = format_.submit(*entry_, request_, left);
    request_.references.reset();  // They are megabytes, and the job may take minutes.
    request.headers.push_back(format_.authorization(*entry_));
    request.total_timeout =
        std::min(entry_->timeout,
                 kExchangeMax + std::chrono::seconds(request.body.size() / kSubmitBytesPerSecond));
    answer_max_ = kAnswerMax + request.body.size();
    request.body_max = answer_max_;
    request.refusal_max = answer_max_;
    return Ask{std::move(request)};
  }

  Step heard(Heard answer) override {
    switch (stage_) {
      case Stage::kSubmitting:
        return after_submit(std::move(answer));
      case Stage::kWaiting:
      case Stage::kFetching:
        return after_question(std::move(answer));
      case Stage::kDownloading:
        return made(after_download(std::move(answer)));
    }
    check_failed("a stage that is not one", __FILE__, __LINE__);
  }

  std::string ticket() const override {
    return ticket_.status_url.empty()
               ? ""
               : ticket_.status_url + "\n" + ticket_.result_url + "\n" + ticket_.cancel_url;
  }

  std::optional<http::ClientRequest> withdraw() const override {
    if (ticket_.cancel_url.empty() || over_) {
      return std::nullopt;
    }
    return question(format_.cancel_method(), ticket_.cancel_url);
  }

 private:
  enum class Stage { kSubmitting, kWaiting, kFetching, kDownloading };

  http::ClientRequest question(const char* method, const std::string& url) const {
    http::ClientRequest out;
    out.method = method;
    out.url = url;
    out.headers = {format_.authorization(*entry_)};
    out.connect_timeout = entry_->connect_timeout;
    out.total_timeout = kExchangeMax;
    out.body_max = std::max(answer_max_, wire::kAudioAnswerMax);  // The file may be in it.
    out.refusal_max = answer_max_;
    return out;
  }

  milliseconds next_pause() {
    const auto pause = pause_;
    pause_ = std::min(
        kPollMax,
        milliseconds(static_cast<std::int64_t>(static_cast<double>(pause_.count()) * kPollGrowth)));
    const double die = dice_[questions_++ % dice_.size()] / 255.0 * 2.0 - 1.0;
    return milliseconds(
        static_cast<std::int64_t>(static_cast<double>(pause.count()) * (1.0 + kPollJitter * die)));
  }

  Step ask_status(milliseconds pause) {
    stage_ = Stage::kWaiting;
    return Ask{question("GET", ticket_.status_url), pause};
  }

  bool is_ours(const std::string& url) const { return wire::same_origin(entry_->base_url, url); }

  // Where the call that gave the ticket was.
  Step go_on() {
    std::istringstream lines(request_.ticket);
    Ticket ticket;
    std::getline(lines, ticket.status_url);
    std::getline(lines, ticket.result_url);
    std::getline(lines, ticket.cancel_url);
    // The entry may have another address by now.
    if (!is_ours(ticket.status_url) ||
        (!ticket.result_url.empty() && !is_ours(ticket.result_url)) ||
        (!ticket.cancel_url.empty() && !is_ours(ticket.cancel_url))) {
      return ProviderFault{Fault::kNotCalled, "the ticket is of another provider", std::nullopt};
    }
    request_.references.reset();
    ticket_ = std::move(ticket);
    return ask_status(milliseconds(0));
  }

  Step after_submit(Heard answer) {
    if (!answer) {
      return wire::fault_of(answer.error());
    }
    auto ticket = format_.submitted(*entry_, std::move(*answer));
    if (!ticket) {
      return ticket.error();
    }
    if (!is_ours(ticket->status_url) ||
        (!ticket->result_url.empty() && !is_ours(ticket->result_url))) {
      return ProviderFault{
          Fault::kUnknownOutcome, "the job's addresses are not the provider's", std::nullopt};
    }
    ticket_ = std::move(*ticket);
    if (!is_ours(ticket_.cancel_url)) {
      ticket_.cancel_url.clear();
    }
    return ask_status(next_pause());
  }

  Step after_question(Heard answer) {
    Progress progress = Unclear{};
    const bool gone = answer && answer->status == 404;
    if (!answer && answer.error().fault == http::ClientFault::kTooLarge) {
      // It would be so the next time.
      return ProviderFault{
          Fault::kUnknownOutcome, "the answer about the job is too large", std::nullopt};
    }
    if (answer) {
      progress = stage_ == Stage::kFetching ? format_.result(*entry_, std::move(*answer))
                                            : format_.status(*entry_, std::move(*answer));
    }
    if (const auto* const unclear = std::get_if<Unclear>(&progress)) {
      return unclear_again(unclear->retry_after);
    }
    const bool waits = std::holds_alternative<Waiting>(progress);
    const bool has_file = std::holds_alternative<FileAt>(progress);
    const bool news = std::holds_alternative<ResultReady>(progress) && !done_;
    // That a result is there is news once, however often it cannot be had.
    if (waits || has_file || news) {
      unclear_ = 0;
      unclear_since_.reset();
      unclear_for_ = {};
    }
    over_ = (over_ && !waits) || gone || has_file || std::holds_alternative<Ended>(progress) ||
            std::holds_alternative<ResultReady>(progress);
    if (auto* const ended = std::get_if<Ended>(&progress)) {
      return std::move(ended->fault);
    }
    if (auto* const fault = std::get_if<ProviderFault>(&progress)) {
      if (gone && fault->fault == Fault::kMisconfigured) {
        // It is this job that is not there. Of an earlier worker's that tells nothing of whether
        // another is to be had.
        fault->fault = known_ || request_.ticket.empty() ? Fault::kTryNext : Fault::kNotCalled;
        fault->made = done_;
      }
      return std::move(*fault);
    }
    known_ = true;
    if (auto* const file = std::get_if<FileAt>(&progress)) {
      billed_ = file->billed;
      return made(download(std::move(file->url)));
    }
    if (std::holds_alternative<ResultReady>(progress)) {
      done_ = true;
      stage_ = Stage::kFetching;
      return Ask{question("GET", ticket_.result_url)};
    }
    return ask_status(next_pause());
  }

  // The job goes on there, whatever we hear of it, and is paid. To ask another is to pay twice, but
  // he needs time, too.
  Step unclear_again(std::optional<std::chrono::seconds> retry_after) {
    const auto now = std::chrono::steady_clock::now();
    unclear_since_ = unclear_since_.value_or(now);
    ++unclear_;
    // A question may take as long as a pause, or longer.
    const auto waited = std::max<std::chrono::nanoseconds>(unclear_for_, now - *unclear_since_);
    if (unclear_ > kUnclearLeast && waited >= patience_) {
      return ProviderFault{
          Fault::kUnknownOutcome, "lost sight of the job after it was taken", std::nullopt};
    }
    const milliseconds pause =
        std::max(next_pause(), milliseconds(retry_after.value_or(std::chrono::seconds(0))));
    unclear_for_ += pause;
    return stage_ == Stage::kDownloading ? ask_file(pause) : ask_status(pause);
  }

  // From where the provider said: a target that it was redirected to may be valid once.
  Step ask_file(milliseconds pause) {
    stage_ = Stage::kDownloading;
    asked_url_ = file_url_;
    redirects_ = 0;
    return Ask{file_request(), pause};
  }

  http::ClientRequest file_request() const {
    http::ClientRequest out;  // Without our key: the file may be anywhere.
    out.url = asked_url_;
    out.connect_timeout = entry_->connect_timeout;
    out.total_timeout = kDownloadMax;
    out.body_max = wire::kAudioAnswerMax;
    // What the provider names the operator has answered for, not where others send us from there.
    const bool is_named = asked_url_ == file_url_ || wire::same_origin(file_url_, asked_url_);
    const bool may_be_any =
        entry_->option("result_address") == "any" || wire::is_loopback(entry_->base_url);
    out.reach = may_be_any && (is_named || is_ours(asked_url_)) ? http::Reach::kAny
                                                                : http::Reach::kPublicOnly;
    return out;
  }

  Step download(std::string url) {
    constexpr std::string_view kBase64Mark = ";base64,";
    if (url.starts_with("data:")) {
      const auto at = url.find(kBase64Mark);
      auto bytes = at == std::string::npos
                       ? std::nullopt
                       : decode_base64(std::string_view(url).substr(at + kBase64Mark.size()));
      if (!bytes) {
        return ProviderFault{
            Fault::kTryNext, std::string(kBadAudio) + "data address", std::nullopt};
      }
      return audio_of(std::move(*bytes), "");
    }
    file_url_ = std::move(url);
    pause_ = kPollFirst;  // It is there, or will be in a moment.
    return ask_file(milliseconds(0));
  }

  Step after_download(Heard answer) {
    if (!answer) {
      const http::ClientFault fault = answer.error().fault;
      if (fault == http::ClientFault::kForbidden || fault == http::ClientFault::kTooLarge) {
        return wire::fault_of(answer.error());
      }
      return unclear_again(std::nullopt);
    }
    if (http::is_redirect(answer->status)) {
      auto target = http::redirect_target(asked_url_, *answer);
      if (target && ++redirects_ <= http::kRedirectsMax &&
          !(asked_url_.starts_with("https:") && target->starts_with("http:"))) {
        asked_url_ = std::move(*target);
        return Ask{file_request()};
      }
      return wire::fault(Fault::kTryNext, *answer, "file", "x-request-id");
    }
    if (answer->status != 200) {
      // A file may be told of before it is everywhere, and it is paid.
      const bool not_yet =
          (answer->status == 404 || answer->status == 403) && not_there_++ < kNotThereYet;
      if (not_yet || wire::leaves_job_open(answer->status)) {
        return unclear_again(std::nullopt);
      }
      return wire::fault(Fault::kTryNext, *answer, "file", "x-request-id");
    }
    const std::string type(answer->header("content-type"));
    return audio_of(std::move(answer->body), type);
  }

  // What is billed there, whether we get it or not.
  Step made(Step step) const {
    if (auto* const fault = std::get_if<ProviderFault>(&step)) {
      fault->made = true;
      fault->billed = billed_;
    }
    return step;
  }

  Step audio_of(std::string bytes, std::string_view type) const {
    auto audio = wire::audio_of(std::move(bytes), type, AudioType::kMp3, 0);
    if (audio) {
      format_.mark_applied(*entry_, *request_.request, *audio);
      audio->stereo = entry_->makes == Makes::kScene;
      audio->billed = billed_;
    }
    return audio ? Step(std::move(*audio)) : Step(audio.error());
  }

  const std::shared_ptr<const ProviderEntry> entry_;
  const PolledFormat& format_;
  ProviderRequest request_;
  Sha256 dice_{};
  std::size_t answer_max_ = kAnswerMax + kEchoMax;  // Of a job whose request is not there any more.
  Stage stage_ = Stage::kSubmitting;
  Ticket ticket_;
  std::string file_url_;   // Where the provider says that it is.
  std::string asked_url_;  // Moves along with redirects.
  int redirects_ = 0;
  int not_there_ = 0;  // So often it was not, where it was said to be.
  std::optional<Thousandths> billed_;
  milliseconds pause_ = kPollFirst;
  std::size_t questions_ = 0;
  int unclear_ = 0;
  std::optional<std::chrono::steady_clock::time_point> unclear_since_;
  milliseconds unclear_for_{0};  // The pauses alone.
  milliseconds patience_{0};
  bool known_ = false;  // The provider has told how the job stands.
  bool done_ = false;   // And that it is done, so that it is billed.
  bool over_ = false;   // It is not there any more, or has ended one way or the other.
};

}  // namespace

std::unique_ptr<Dialogue> make_polled_dialogue(std::shared_ptr<const ProviderEntry> entry,
                                               const PolledFormat& format,
                                               const ProviderRequest& request) {
  return std::make_unique<PolledDialogue>(std::move(entry), format, request);
}

}  // namespace audiogen
