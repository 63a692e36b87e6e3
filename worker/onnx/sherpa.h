// The part of sherpa-onnx's C interface that we use, as version 1.13.8 has it (`c-api.h` there,
// which its npm package leaves out). The structures have other members in other versions, so a
// library of another one is not called. All texts end with a zero byte; null is "".
#pragma once

#include <cstdint>

namespace audiogen::onnx::sherpa {

struct Vits {
  const char *model, *lexicon, *tokens, *data_dir;
  float noise_scale, noise_scale_w, length_scale;  // 0: by default
  const char* dict_dir;
};

struct Matcha {
  const char *acoustic_model, *vocoder, *lexicon, *tokens, *data_dir;
  float noise_scale, length_scale;
  const char* dict_dir;
};

struct Kokoro {
  const char *model, *voices, *tokens, *data_dir;
  float length_scale;
  const char *dict_dir, *lexicon, *lang;
};

struct Kitten {
  const char *model, *voices, *tokens, *data_dir;
  float length_scale;
};

struct ZipVoice {
  const char *tokens, *encoder, *decoder, *vocoder, *data_dir, *lexicon;
  float feat_scale, t_shift, target_rms, guidance_scale;
};

struct Pocket {
  const char *lm_flow, *lm_main, *encoder, *decoder, *text_conditioner, *vocab_json,
      *token_scores_json;
  std::int32_t voice_embedding_cache_capacity;
};

struct Supertonic {
  const char *duration_predictor, *text_encoder, *vector_estimator, *vocoder, *tts_json,
      *unicode_indexer, *voice_style;
};

struct Config {
  Vits vits;
  std::int32_t num_threads, debug;
  const char* provider;
  Matcha matcha;
  Kokoro kokoro;
  Kitten kitten;
  ZipVoice zipvoice;
  Pocket pocket;
  Supertonic supertonic;
  const char* rule_fsts;
  std::int32_t max_num_sentences;  // taken at once: -1 all
  const char* rule_fars;
  float silence_scale;
};

struct Tts;

// Gets what was made of a sentence, or several. 0: no more is wanted.
using Callback = std::int32_t(const float* samples, std::int32_t count, void* argument);

// Functions of the library, by their names there.
using GetVersionStr = const char*();
using CreateOfflineTts = const Tts*(const Config* config);
using SampleRate = std::int32_t(const Tts* tts);
using NumSpeakers = std::int32_t(const Tts* tts);
using GenerateWithCallbackWithArg = const void*(const Tts* tts,
                                                const char* text,
                                                std::int32_t speaker,
                                                float speed,
                                                Callback* callback,
                                                void* argument);

}  // namespace audiogen::onnx::sherpa
