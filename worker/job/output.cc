#include "worker/job/output.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/blob/blob_errors.h"
#include "common/blob/blob_key.h"
#include "common/domain/call_failure.h"
#include "worker/job/batches.h"
#include "worker/job/pause.h"

namespace audiogen::worker {
namespace {

// Here, so that they are told from the start.
prometheus::Counter& passed =
    metrics::counter("worker_passed_through_total", "Audio delivered as the provider sent it");

prometheus::Gauge& kept =
    metrics::gauge("outputs_kept", "Audio that was made and that the blob store does not take");

prometheus::Gauge& decoder_down = metrics::gauge(
    "worker_decoder_down", "1 while the decoder does not run, and this worker claims nothing");

// Of what is kept before it was offered.
constexpr const char* kStoreAway = "the blob store is away";
// Of what was offered and has no answer.
constexpr const char* kStoreSilent = "the blob store does not answer";

// So many files that are refused by themselves, and none that is taken, are no matter of one file.
constexpr std::size_t kAloneMost = 3;
// After so many refusals in a row of one file something else is offered in its place.
constexpr int kRefusedOften = 2;
// So much of it, or as much as the file has: what takes next to nothing only, as a full disk, takes
// no sound.
constexpr std::size_t kElseBytes = std::size_t{64} << 10;

// Silence and next to nothing come from what was asked for; the rest from who made it.
Fault fault_of(PipelineFault::Kind kind) {
  switch (kind) {
    case PipelineFault::Kind::kSilent:
    case PipelineFault::Kind::kTooShort:
      return Fault::kUnsupportedInput;
    case PipelineFault::Kind::kEmpty:
      return Fault::kBrokenByInput;
    case PipelineFault::Kind::kUndecodable:
    case PipelineFault::Kind::kInternal:
    case PipelineFault::Kind::kNoDecoder:
      return Fault::kTryNext;
  }
  return Fault::kTryNext;
}

// How a file ends that is refused by itself: where it is only set aside another time, or another
// worker, may do better.
OutputFault end_of_refused(bool aside, const std::string& why) {
  return aside ? OutputFault{.kind = OutputFault::Kind::kOurs,
                             .what = "audio could not be stored",
                             .why = why}
               : OutputFault{.kind = OutputFault::Kind::kTooLarge,
                             .what = "audio cannot be stored",
                             .why = why};
}

}  // namespace

Output::Output(BlobStore& blobs,
               http::Client& client,
               Decoder& decoder,
               Scheduler& scheduler,
               Made made,
               OutputPatience patience)
    : patience_(patience),
      blobs_(blobs),
      client_(client),
      decoder_(decoder),
      scheduler_(scheduler),
      made_(std::move(made)),
      codecs_(cores(), kWaitingMax),
      writers_(blobs.put_shape().threads,
               blobs.put_shape().batch_max,
               kWaitingMax,
               [this](std::vector<Ready> ready) { put(std::move(ready)); }) {}

void Output::stop() {
  codecs_.stop();
  writers_.stop();
}

void Output::make(const JobPtr& job, Audio audio) {
  job->audio_kept = client_.keep(audio.bytes.size());
  // std::function must be copyable, the audio is big: share it.
  post(std::make_shared<Raw>(Raw{job, std::move(audio)}));
}

void Output::post(std::shared_ptr<Raw> raw) {
  const JobPtr job = raw->job;
  if (!codecs_.post([this, raw = std::move(raw)] { shape(raw); })) {
    end_bad(job, Fault::kTryNext, "codec pool full");
  }
}

void Output::shape(std::shared_ptr<Raw> raw) {
  const JobPtr& job = raw->job;
  if (job->is_lost()) {
    end(job, OutputFault{.kind = OutputFault::Kind::kLost});
    return;
  }
  const RenderSpec spec = render_spec(*job->request, raw->audio);
  auto rendered = render(std::move(raw->audio), spec, decoder_);
  if (!rendered && rendered.error().kind == PipelineFault::Kind::kNoDecoder) {
    keep_raw(std::move(raw), rendered.error().detail);
    return;
  }
  // Only audio that can be delivered counts as a success of its provider. Bad audio means the next
  // provider, never a bill.
  const auto fault = rendered ? std::nullopt : std::optional(fault_of(rendered.error().kind));
  job->chain->proved(job->provider, fault, fault ? job->failing(job->provider, *fault) : Failing());
  if (fault) {
    end_bad(job, *fault, std::string(kBadAudio) + rendered.error().detail);
    return;
  }
  passed.Increment(rendered->passed_through ? 1 : 0);
  store({job, std::move(*rendered)});
}

// Whoever made it is paid. No other worker can have it, so it does not wait here for as long as for
// the blob store, which is the same for all.
void Output::keep_raw(std::shared_ptr<Raw> raw, const std::string& why) {
  constexpr const char* kWhat = "audio could not be decoded";
  const JobPtr job = raw->job;
  if (note_decoder(false)) {
    log::error("the decoder does not run", {{"why", why}});
    ask_decoder_later(0);
  }
  const auto now = Job::Clock::now();
  if (!raw->kept_to) {
    raw->kept_to =
        now + std::min<Job::Clock::duration>(patience_.decoder, (job->deadline - now) / 2);
  }
  if (job->is_given_back()) {
    end(job, OutputFault{.kind = OutputFault::Kind::kStopping, .what = kWhat, .why = why});
    return;
  }
  if (now >= *raw->kept_to) {
    end_ours(job, kWhat, why);
    return;
  }
  if (raw->refusals == 0) {
    log::warn("audio could not be decoded, it is kept",
              about(*job),
              {{"why", why}, {"bytes", raw->audio.bytes.size()}});
  }
  const auto length = store_pause(raw->refusals++);
  pause(scheduler_, job, length, [this, raw = std::move(raw)]() mutable { post(std::move(raw)); });
}

void Output::ask_decoder_later(int tries) {
  scheduler_.after(store_pause(tries), [this, tries] {
    if (!codecs_.post([this, tries] { ask_decoder(tries); })) {
      ask_decoder_later(tries + 1);
    }
  });
}

// Whoever's decoder does not run must not claim what it could only keep, nor what it has just given
// up; and no audio may be left here to tell. A picture that is none is answered by one that runs:
// where that crashes it, or takes too long, no sound would do better.
void Output::ask_decoder(int tries) {
  constexpr std::string_view kNoPicture = "\x89PNG\r\n\x1a\n";
  std::uint64_t before = 0;
  {
    const MutexLock lock(mutex_);
    before = decoder_refusals_;
  }
  const auto answer = decoder_.inspect_image(kNoPicture);
  const bool runs = answer || (answer.error() != DecodeFault::kUnavailable &&
                               answer.error() != DecodeFault::kCrashed &&
                               answer.error() != DecodeFault::kTimedOut);
  if (!runs || !note_decoder(true, before)) {
    ask_decoder_later(runs ? 0 : tries + 1);
    return;
  }
  log::info("the decoder runs again");
}

// Whether that is news. It runs again only if it has refused nothing since it had refused `before`.
bool Output::note_decoder(bool runs, std::uint64_t before) {
  const MutexLock lock(mutex_);
  if (!runs) {
    ++decoder_refusals_;
  } else if (decoder_refusals_ != before) {
    return false;
  }
  decoder_down.Set(runs ? 0 : 1);
  return decoder_down_.exchange(!runs) == runs;
}

void Output::store(Ready ready) {
  bool down = false;
  {
    const MutexLock lock(mutex_);
    offered_.insert(ready.job);
    down = down_;
  }
  if (down) {
    ready.why = kStoreAway;
    keep({std::move(ready)});  // One that is kept finds out whether it works again.
    return;
  }
  if (!writers_.post(std::move(ready))) {
    if (leaves(ready)) {
      end_ours(ready.job, "audio could not be stored", "writer pool full");
    }
    keep({});
  }
}

void Output::put(std::vector<Ready> ready) {
  std::erase_if(ready, [this](Ready& one) {
    if (!one.job->is_lost() && is_offered(one.job)) {
      return false;
    }
    if (leaves(one)) {
      end(one.job, OutputFault{.kind = OutputFault::Kind::kLost});
    }
    return true;
  });
  // What was made shortly before the store went down waits as what was made since: each would be
  // waited for as long as a store that says nothing is.
  std::vector<Ready> unasked;
  if (store_is_down()) {
    const auto first = std::stable_partition(
        ready.begin(), ready.end(), [](const Ready& one) { return !one.why.empty(); });
    std::move(first, ready.end(), std::back_inserter(unasked));
    ready.erase(first, ready.end());
  }
  std::vector<std::string> names;
  std::vector<NewBlob> files;
  names.reserve(ready.size());  // The views into it stay valid.
  for (const Ready& one : ready) {
    names.push_back(make_blob_name(
        one.job->claim.task, one.job->request->output_format, one.job->request->sample_rate));
    files.push_back({names.back(), one.rendered.bytes, wanted(one.job)});
  }
  const auto keys = files.empty() ? std::vector<PutResult>() : put_files(files);
  std::vector<std::pair<JobPtr, OutputFile>> stored;
  std::vector<Ready> refused, ended;
  std::size_t taken = 0, newly_alone = 0;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if (keys[i]) {
      AG_CRASH_POINT("worker.stored");
      ++taken;
      if (!leaves(ready[i])) {
        continue;  // Its file is nobody's, like what a crash leaves.
      }
      const Rendered& rendered = ready[i].rendered;
      stored.emplace_back(
          ready[i].job,
          OutputFile{.key = *keys[i],
                     .bytes = rendered.bytes.size(),
                     .checksum = rendered.checksum,
                     .duration_ms =
                         duration_ms(static_cast<std::int64_t>(rendered.samples), rendered.rate)});
    } else if (keys[i].error().unwanted) {
      ready[i].why = keys[i].error().message;
      ended.push_back(std::move(ready[i]));
    } else {
      count_blob_error(BlobOp::kPut);
      newly_alone += note_refusal(ready[i], keys[i].error()) ? 1U : 0U;
      refused.push_back(std::move(ready[i]));
    }
  }
  newly_alone += taken == 0 ? set_aside(refused) : 0;
  note_answer(taken, newly_alone, refused);
  for (auto& [job, file] : stored) {
    end(job, std::move(file));
  }
  for (Ready& one : unasked) {
    one.why = kStoreAway;
    refused.push_back(std::move(one));
  }
  std::move(ended.begin(), ended.end(), std::back_inserter(refused));
  keep(std::move(refused));
}

// Whether a put of its file is to go on.
std::function<bool()> Output::wanted(const JobPtr& job) {
  return [this, job] {
    if (job->is_lost()) {
      return false;
    }
    const bool given_back = job->is_given_back();
    const auto now = Job::Clock::now();
    const MutexLock lock(mutex_);
    if (given_back && !leaves_since_) {
      leaves_since_ = now;
    }
    return offered_.contains(job) && !(given_back && now - *leaves_since_ >= patience_.leaving);
  };
}

std::vector<PutResult> Output::put_files(std::span<const NewBlob> files) {
  std::size_t bytes = 0;
  for (const NewBlob& file : files) {
    bytes += file.bytes.size();
  }
  std::multiset<Job::Clock::time_point>::iterator begun;
  {
    const MutexLock lock(mutex_);
    begun = puts_.insert(Job::Clock::now() + blobs_.put_shape().time_for(bytes));
    if (!std::exchange(watches_, true)) {
      scheduler_.after(patience_.silence, [this] { watch_puts(); });
    }
  }
  auto keys = blobs_.put(files);
  const bool takes = std::any_of(
      keys.begin(), keys.end(), [](const PutResult& key) { return static_cast<bool>(key); });
  const MutexLock lock(mutex_);
  puts_.erase(begun);
  if (takes) {
    taken_at_ = Job::Clock::now();
  }
  return keys;
}

// For how long one is under way, beyond what its bytes may take, and none has taken anything. Less
// than nothing while there is time for them.
Job::Clock::duration Output::silence() const {
  if (puts_.empty()) {
    return Job::Clock::duration::zero();
  }
  const auto begun = *puts_.begin();
  return Job::Clock::now() - std::max(begun, taken_at_.value_or(begun));
}

// A disk that stands still says nothing, however long it is waited for, and all that is made and
// paid meanwhile would be waiting, too.
void Output::watch_puts() {
  bool news = false;
  {
    const MutexLock lock(mutex_);
    watches_ = !puts_.empty();
    if (!watches_) {
      return;  // The next one begins it again.
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(patience_.silence - silence());
    const bool silent = left.count() <= 0;
    news = silent && !std::exchange(down_, true);
    // A smaller one may come meanwhile, which has less time.
    scheduler_.after(silent ? patience_.silence : std::min(left, patience_.silence),
                     [this] { watch_puts(); });
  }
  if (news) {
    count_blob_error(BlobOp::kPut);
    log::error("the blob store takes no audio", {{"why", kStoreSilent}});
  }
}

// Whether it is refused by itself for the first time: one file that is, and times out, and is again
// would else be several of them.
bool Output::note_refusal(Ready& ready, const PutFault& fault) {
  const bool newly_alone = fault.of_this_blob && !ready.first_alone;
  const bool news = ready.why.empty() || newly_alone;
  ready.why = fault.message;
  ready.refusals = fault.of_this_blob ? 0 : ready.refusals + 1;
  if (fault.of_this_blob && std::exchange(ready.aside, false)) {
    ready.first_alone.reset();  // For something else: that it is too large is new.
  }
  ready.alone.reset();
  if (fault.of_this_blob || ready.aside) {
    ready.note_alone();
  }
  if (news) {
    log::warn("audio could not be stored, it is kept",
              about(*ready.job),
              {{"why", ready.why}, {"bytes", ready.rendered.bytes.size()}});
  }
  return newly_alone;
}

// One file that is refused again and again, for whatever a gateway finds in it, or because it takes
// too long, would be the only one that asks, and keep its worker from claiming until its deadline.
// So something else asks as well. Sets those aside of which it is told that way that they are not
// the store's matter; how many for the first time.
std::size_t Output::set_aside(std::span<Ready> refused) {
  const auto is_due = [](const Ready& one) {
    return !one.alone && one.refusals % kRefusedOften == 0 && !over(*one.job, one.why);
  };
  const auto first = std::find_if(refused.begin(), refused.end(), is_due);
  if (first == refused.end() || !takes_another(*first)) {
    return 0;
  }
  std::size_t newly_alone = 0;
  for (Ready& one : refused) {
    if (is_due(one)) {
      one.aside = true;
      newly_alone += one.first_alone ? 0U : 1U;
      one.note_alone();
      log::warn("audio is refused by a blob store that takes others",
                about(*one.job),
                {{"why", one.why}, {"bytes", one.rendered.bytes.size()}});
    }
  }
  return newly_alone;
}

// Whether the store takes something of no use in place of what it has refused.
bool Output::takes_another(const Ready& refused) {
  const std::string name = make_blob_name(refused.job->claim.task,
                                          refused.job->request->output_format,
                                          refused.job->request->sample_rate);
  const std::string bytes(std::min(refused.rendered.bytes.size(), kElseBytes), '\0');
  const NewBlob other{name, bytes, wanted(refused.job)};
  const PutResult key = put_files({&other, 1}).front();
  if (!key) {
    count_blob_error(BlobOp::kPut);
    return false;
  }
  // Should it stay, it is nobody's, like what a crash leaves.
  static_cast<void>(counted(BlobOp::kRemove, blobs_.remove(*key)));
  return true;
}

void Output::note_answer(std::size_t stored,
                         std::size_t newly_alone,
                         std::span<const Ready> refused) {
  bool changed = false, down = false;
  {
    const MutexLock lock(mutex_);
    alone_ = stored == 0 ? alone_ + newly_alone : 0;
    const bool all_tell = alone_ >= kAloneMost;
    const bool refuses = std::any_of(
        refused.begin(), refused.end(), [&](const Ready& one) { return all_tell || !one.alone; });
    down = stored == 0 && (refuses || down_);
    refusals_ = down ? refusals_ + (refuses ? 1 : 0) : 0;
    changed = std::exchange(down_, down) != down;
  }
  if (changed && down) {
    log::error("the blob store takes no audio", {{"why", refused.front().why}});
  } else if (changed && stored > 0) {
    log::info("the blob store takes audio again");
  }
}

// Of what is kept or offered just now, something that tells whether the store works.
bool Output::somebody_asks() const {
  const bool all_tell = alone_ >= kAloneMost;
  return !offered_.empty() || !puts_.empty() ||
         std::any_of(
             kept_.begin(), kept_.end(), [&](const Ready& one) { return all_tell || !one.alone; });
}

// Refused as too large for long enough, and just now once more.
bool Output::is_hopeless(const Ready& ready) const {
  return ready.alone && !ready.aside && *ready.alone - *ready.first_alone >= patience_.most;
}

// Whether its bytes count among those of all that are refused by themselves.
void Output::count_alone(Ready& ready, bool counts) {
  const std::size_t bytes = counts ? ready.rendered.bytes.size() : 0;
  alone_bytes_ -= std::exchange(ready.counted, bytes);
  alone_bytes_ += bytes;
}

bool Output::is_offered(const JobPtr& job) const {
  const MutexLock lock(mutex_);
  return offered_.contains(job);
}

// It is offered and kept no longer. False: it has ended meanwhile.
bool Output::leaves(Ready& ready) {
  const MutexLock lock(mutex_);
  count_alone(ready, false);
  return offered_.erase(ready.job) > 0;
}

// They were offered until now.
void Output::keep(std::vector<Ready> refused) {
  std::vector<std::pair<JobPtr, OutputFault>> ended;
  {
    const MutexLock lock(mutex_);
    for (Ready& one : refused) {
      if (offered_.erase(one.job) == 0) {
        count_alone(one, false);  // It has ended meanwhile.
        continue;
      }
      if (auto fault = over(*one.job, one.why)) {
        count_alone(one, false);
        ended.emplace_back(one.job, std::move(*fault));
        continue;
      }
      count_alone(one, one.alone.has_value());
      if (one.alone && (is_hopeless(one) || alone_bytes_ > patience_.bytes)) {
        count_alone(one, false);
        ended.emplace_back(one.job, end_of_refused(one.aside, one.why));
        continue;
      }
      // What waits for the store's return takes room from what providers send; what nobody may ever
      // take must not.
      one.job->audio_kept = one.alone ? nullptr : client_.keep(one.rendered.bytes.size());
      kept_.push_back(std::move(one));
    }
    kept.Set(static_cast<double>(kept_.size()));
    if (down_ && !somebody_asks()) {
      down_ = false;  // Nobody is left to find out: what is made next does.
      refusals_ = 0;
    }
    if (!kept_.empty() && !std::exchange(offers_again_, true)) {
      scheduler_.after(store_pause(refusals_), [this] { offer_again(); });
    }
  }
  for (auto& [job, fault] : ended) {
    end(job, std::move(fault));
  }
}

void Output::offer_again() {
  look_at_kept(true);
}

void Output::end_what_is_over() {
  look_at_kept(false);
}

// Ends what is over, and offers what is due if it `offers`. While the store is down one file asks
// for all, each in its turn: one alone may be what it does not take. Of what a store that says
// nothing has in hand only the job ends, not the bytes.
void Output::look_at_kept(bool offers) {
  std::vector<std::pair<JobPtr, OutputFault>> ended;
  std::vector<Ready> next;
  {
    const MutexLock lock(mutex_);
    offers_again_ = offers_again_ && !offers;
    const auto now = Job::Clock::now();
    const auto due = now - patience_.pause;
    // What takes long on its way, as a large file may, keeps no other from asking.
    const bool asked = asking_ && now - asking_->since < patience_.silence &&
                       offered_.contains(asking_->job.lock());
    std::deque<Ready> later;
    for (Ready& one : kept_) {
      const bool asks = down_ ? !asked && next.empty() : !one.alone || *one.alone <= due;
      if (auto fault = over(*one.job, one.why)) {
        count_alone(one, false);
        ended.emplace_back(one.job, std::move(*fault));
      } else if (offers && asks) {
        next.push_back(std::move(one));
      } else {
        later.push_back(std::move(one));
      }
    }
    kept_ = std::move(later);
    const bool silent = silence() >= patience_.silence;
    for (auto it = offered_.begin(); silent && it != offered_.end();) {
      if (auto fault = over(**it, kStoreSilent)) {
        ended.emplace_back(*it, std::move(*fault));
        it = offered_.erase(it);
      } else {
        ++it;
      }
    }
    for (const Ready& one : next) {
      offered_.insert(one.job);
      asking_ = {one.job, now};
    }
  }
  for (auto& [job, fault] : ended) {
    end(job, std::move(fault));
  }
  std::vector<Ready> refused;
  for (Ready& one : next) {
    if (!writers_.post(std::move(one))) {
      refused.push_back(std::move(one));
    }
  }
  keep(std::move(refused));
}

bool Output::store_is_down() const {
  const MutexLock lock(mutex_);
  return down_;
}

// How it ends, if it is not to be kept any longer; `why` it is kept.
std::optional<OutputFault> Output::over(const Job& job, const std::string& why) {
  if (job.is_lost()) {
    return OutputFault{.kind = OutputFault::Kind::kLost};
  }
  if (job.is_given_back()) {
    return OutputFault{
        .kind = OutputFault::Kind::kStopping, .what = "audio could not be stored", .why = why};
  }
  if (Job::Clock::now() >= job.deadline) {
    // Not the provider's fault.
    return OutputFault{
        .kind = OutputFault::Kind::kOurs, .what = "audio could not be stored", .why = why};
  }
  return std::nullopt;
}

void Output::end(const JobPtr& job, Result<OutputFile, OutputFault> result) {
  job->audio_kept.reset();
  made_(job, std::move(result));
}

void Output::end_ours(const JobPtr& job, const char* what, const std::string& why) {
  end(job, OutputFault{.kind = OutputFault::Kind::kOurs, .what = what, .why = why});
}

void Output::end_bad(const JobPtr& job, Fault fault, const std::string& detail) {
  end(job,
      OutputFault{.kind = OutputFault::Kind::kBadAudio,
                  .of_provider = ProviderFault{fault, detail, std::nullopt}});
}

}  // namespace audiogen::worker
