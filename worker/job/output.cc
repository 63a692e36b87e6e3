#include "worker/job/output.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/blob/blob_errors.h"
#include "common/blob/blob_key.h"
#include "worker/job/batches.h"

namespace audiogen::worker {
namespace {

// Here, so that they are told from the start.
prometheus::Counter& passed =
    metrics::counter("worker_passed_through_total", "Audio delivered as the provider sent it");

prometheus::Gauge& kept =
    metrics::gauge("outputs_kept", "Audio that was made and that the blob store does not take");

// Nothing that is kept tells of the store.
constexpr int kAsleep = 10;
// Between offers of a file that the store refuses by itself: this, doubled by each refusal so
// often.
constexpr std::chrono::seconds kAlone{2};
constexpr int kAloneDoublings = 5;

// Silence and next to nothing come from what was asked for; the rest from who made it.
Fault fault_of(PipelineFault::Kind kind) {
  switch (kind) {
    case PipelineFault::Kind::kSilent:
    case PipelineFault::Kind::kTooShort:
      return Fault::kUnsupportedInput;
    case PipelineFault::Kind::kUndecodable:
    case PipelineFault::Kind::kInternal:
    case PipelineFault::Kind::kNoDecoder:
      return Fault::kTryNext;
  }
  return Fault::kTryNext;
}

}  // namespace

Output::Output(
    BlobStore& blobs, http::Client& client, Decoder& decoder, Scheduler& scheduler, Made made)
    : blobs_(blobs),
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
  auto shared = std::make_shared<Audio>(std::move(audio));
  if (!codecs_.post([this, job, shared] { shape(job, std::move(*shared)); })) {
    end_bad(job, Fault::kTryNext, "codec pool full");
  }
}

void Output::shape(const JobPtr& job, Audio audio) {
  if (job->is_lost()) {
    end(job, OutputFault{.kind = OutputFault::Kind::kLost});
    return;
  }
  const RenderSpec spec = render_spec(*job->request, audio);
  auto rendered = render(std::move(audio), spec, decoder_);
  if (!rendered && rendered.error().kind == PipelineFault::Kind::kNoDecoder) {
    end_ours(job, "audio could not be decoded", rendered.error().detail);
    return;
  }
  // Only audio that can be delivered counts as a success of its provider. Bad audio means the next
  // provider, never a bill.
  const auto fault = rendered ? std::nullopt : std::optional(fault_of(rendered.error().kind));
  job->chain->proved(job->provider, fault, fault ? job->failing(job->provider, *fault) : Failing());
  if (fault) {
    end_bad(job, *fault, rendered.error().detail);
    return;
  }
  passed.Increment(rendered->passed_through ? 1 : 0);
  store({job, std::move(*rendered)});
}

void Output::store(Ready ready) {
  if (store_is_down()) {
    ready.why = "the blob store is away";
    keep({std::move(ready)});  // One that is kept finds out whether it works again.
    return;
  }
  if (!writers_.post(std::move(ready))) {
    end_ours(ready.job, "audio could not be stored", "writer pool full");
  }
}

void Output::put(std::vector<Ready> ready) {
  std::erase_if(ready, [this](const Ready& one) {
    const bool lost = one.job->is_lost();
    if (lost) {
      end(one.job, OutputFault{.kind = OutputFault::Kind::kLost});
    }
    return lost;
  });
  std::vector<std::string> names;
  std::vector<NewBlob> files;
  names.reserve(ready.size());  // The views into it stay valid.
  for (const Ready& one : ready) {
    names.push_back(make_blob_name(
        one.job->claim.task, one.job->request->output_format, one.job->request->sample_rate));
    files.push_back({names.back(), one.rendered.bytes});
  }
  auto keys = files.empty() ? std::vector<PutResult>() : blobs_.put(files);
  std::vector<Ready> refused;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if (!keys[i]) {
      count_blob_error(BlobOp::kPut);
      if (ready[i].why.empty() || (keys[i].error().of_this_blob && ready[i].alone == 0)) {
        log::warn("audio could not be stored, it is kept",
                  about(*ready[i].job),
                  {{"why", keys[i].error().message}});
      }
      ready[i].refused(keys[i].error());
      refused.push_back(std::move(ready[i]));
      continue;
    }
    AG_CRASH_POINT("worker.stored");
    const Rendered& rendered = ready[i].rendered;
    end(ready[i].job,
        OutputFile{.key = std::move(*keys[i]),
                   .bytes = rendered.bytes.size(),
                   .sha256 = rendered.sha256,
                   .duration_ms =
                       duration_ms(static_cast<std::int64_t>(rendered.samples), rendered.rate)});
  }
  const std::size_t stored = ready.size() - refused.size();
  put_ended(stored, std::move(refused));
}

void Output::Ready::refused(const PutFault& fault) {
  why = fault.message;
  sleeps_until.reset();
  if (fault.of_this_blob) {
    sleeps_until = Job::Clock::now() + kAlone * (1 << std::min(alone++, kAloneDoublings));
  }
}

void Output::put_ended(std::size_t stored, std::vector<Ready> refused) {
  bool changed = false;
  const auto told = std::find_if(
      refused.begin(), refused.end(), [](const Ready& one) { return one.tells_of_the_store(); });
  const bool refuses = told != refused.end();
  {
    const MutexLock lock(mutex_);
    // Where all that was kept is lost, nobody is left to find out: what is made next does.
    const bool down = stored == 0 && (refuses || (down_ && somebody_asks()));
    refusals_ = down ? refusals_ + (refuses ? 1 : 0) : 0;
    changed = std::exchange(down_, down) != down;
  }
  if (changed && refuses) {
    log::error("the blob store takes no audio", {{"why", told->why}});
  } else if (changed) {
    log::info("the blob store takes audio again");
  }
  keep(std::move(refused));
}

void Output::keep(std::vector<Ready> refused) {
  const bool over =
      std::erase_if(refused, [this](const Ready& one) { return end_if_over(one); }) > 0;
  const MutexLock lock(mutex_);
  for (Ready& one : refused) {
    one.job->audio_kept = client_.keep(one.rendered.bytes.size());
    kept_.push_back(std::move(one));
  }
  kept.Set(static_cast<double>(kept_.size()));
  if (over && !somebody_asks() && !offers_again_) {
    down_ = false;  // Nobody is left to find out: what is made next does.
  }
  if (!kept_.empty() && !std::exchange(offers_again_, true)) {
    const int tries = somebody_asks() ? refusals_ : kAsleep;
    scheduler_.after(store_pause(tries), [this] { offer_again(); });
  }
}

// While the store is down one file asks for all, each in its turn.
void Output::offer_again() {
  end_what_is_over();
  std::vector<Ready> next;
  {
    const MutexLock lock(mutex_);
    offers_again_ = false;
    down_ = down_ && somebody_asks();
    const auto now = Job::Clock::now();
    std::deque<Ready> later;
    for (Ready& one : kept_) {
      const bool asks = down_ ? next.empty() && one.tells_of_the_store()
                              : one.tells_of_the_store() || *one.sleeps_until <= now;
      if (asks) {
        next.push_back(std::move(one));
      } else {
        later.push_back(std::move(one));
      }
    }
    kept_ = std::move(later);
  }
  std::vector<Ready> refused;
  for (Ready& one : next) {
    if (!writers_.post(std::move(one))) {
      refused.push_back(std::move(one));
    }
  }
  keep(std::move(refused));
}

// Of what is kept, something that tells whether the store works.
bool Output::somebody_asks() const {
  return std::any_of(
      kept_.begin(), kept_.end(), [](const Ready& one) { return one.tells_of_the_store(); });
}

bool Output::store_is_down() const {
  const MutexLock lock(mutex_);
  return down_;
}

void Output::end_what_is_over() {
  std::deque<Ready> all;
  {
    const MutexLock lock(mutex_);
    all.swap(kept_);
  }
  std::erase_if(all, [this](const Ready& one) { return end_if_over(one); });
  const MutexLock lock(mutex_);
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    kept_.push_front(std::move(*one));
  }
  kept.Set(static_cast<double>(kept_.size()));
}

bool Output::end_if_over(const Ready& ready) {
  if (ready.job->is_lost()) {
    end(ready.job, OutputFault{.kind = OutputFault::Kind::kLost});
  } else if (ready.job->is_given_back()) {
    end(ready.job, OutputFault{.kind = OutputFault::Kind::kStopping, .why = ready.why});
  } else if (Job::Clock::now() >= ready.job->deadline) {
    // Not the provider's fault.
    end_ours(ready.job, "audio could not be stored", ready.why);
  } else {
    return false;
  }
  return true;
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
