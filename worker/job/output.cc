#include "worker/job/output.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/metrics.h"
#include "common/blob/blob_errors.h"
#include "common/blob/blob_key.h"
#include "worker/job/batches.h"

namespace audiogen::worker {
namespace {

// Here, so that they are told from the start.
prometheus::Counter& passed =
    metrics::counter("worker_passed_through_total", "Audio delivered as the provider sent it");

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

Output::Output(BlobStore& blobs, http::Client& client, Decoder& decoder, Made made)
    : blobs_(blobs),
      client_(client),
      decoder_(decoder),
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
  job->chain->proved(job->provider, fault);
  if (fault) {
    end_bad(job, *fault, rendered.error().detail);
    return;
  }
  passed.Increment(rendered->passed_through ? 1 : 0);
  if (!writers_.post({job, std::move(*rendered)})) {
    end_ours(job, "audio could not be stored", "writer pool full");
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
  if (ready.empty()) {
    return;
  }
  std::vector<std::string> names;
  std::vector<NewBlob> files;
  names.reserve(ready.size());  // The views into it stay valid.
  for (const auto& [job, rendered] : ready) {
    names.push_back(
        make_blob_name(job->claim.task, job->request->output_format, job->request->sample_rate));
    files.push_back({names.back(), rendered.bytes});
  }
  auto stored = blobs_.put(files);
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const auto& [job, rendered] = ready[i];
    if (!stored[i]) {
      count_blob_error(BlobOp::kPut);
      // Not the provider's fault: made again later, by a worker whose store may work.
      end_ours(job, "audio could not be stored", stored[i].error().message);
      continue;
    }
    AG_CRASH_POINT("worker.stored");
    end(job,
        OutputFile{.key = std::move(*stored[i]),
                   .bytes = rendered.bytes.size(),
                   .sha256 = rendered.sha256,
                   .duration_ms =
                       duration_ms(static_cast<std::int64_t>(rendered.samples), rendered.rate)});
  }
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
