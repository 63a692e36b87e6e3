// SPDX-License-Identifier: GPL-3.0-or-later

#include "worker/speech/english.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

extern "C" {
#include <flite/flite.h>
// Has no guards for C++ and needs flite.h before it.
#include <flite/cst_cg.h>

cst_voice* register_cmu_us_awb(const char*);
cst_voice* register_cmu_us_rms(const char*);
cst_voice* register_cmu_us_slt(const char*);
}

namespace audiogen::speech {
namespace {

// The voices' own gain lets loud vowels pass 16 bits, where flite's samples wrap around. The worker
// brings all speech to one loudness anyway.
constexpr float kGain = 0.6F;

struct Voice {
  std::string_view name;
  cst_voice* (*make)(const char*);
  cst_voice* voice = nullptr;
  float stretch = 1;  // of its durations, at the normal speed
};
std::array<Voice, 3> voices = {
    {{"awb", register_cmu_us_awb}, {"rms", register_cmu_us_rms}, {"slt", register_cmu_us_slt}}};

// What the functions that flite calls back are to do: they get no pointer of ours.
struct Task {
  const SampleSink* sink = nullptr;
  float pitch_factor = 1;
  float tone = 1;  // 0: breath alone
};
Task task;

int stop_at_once(const cst_wave*, int, int, int, cst_audio_streaming_info*) {
  return CST_AUDIO_STREAM_STOP;
}

int pass_on(const cst_wave* wave, int start, int count, int, cst_audio_streaming_info*) {
  const std::span<const short> samples(wave->samples + start, static_cast<std::size_t>(count));
  return (*task.sink)(samples) ? CST_AUDIO_STREAM_CONT : CST_AUDIO_STREAM_STOP;
}

// The last step of flite's synthesis: makes sound of the utterance's phones. flite's own sets pitch
// by numbers that not every voice heeds, and holds it above 50 Hz. So this one lets it work out its
// tracks (pitch, spectrum, share of tone), changes them, and has them made into sound.
cst_utterance* make_sound(cst_utterance* utterance) {
  cst_audio_streaming_info* const none = new_audio_streaming_info();
  none->asc = stop_at_once;
  flite_feat_set(utterance->features, "streaming_info", audio_streaming_info_val(none));
  cg_synth(utterance);
  flite_feat_remove(utterance->features, "Interrupted");
  flite_feat_remove(utterance->features, "streaming_info");  // and frees it

  cst_cg_db model = *val_cg_db(utt_feat_val(utterance, "cg_db"));
  model.gain *= kGain;
  cst_track* const track = mlpg(val_track(utt_feat_val(utterance, "param_track")), &model);
  cst_track* const tone = val_track(utt_feat_val(utterance, "str_track"));
  for (int frame = 0; frame < track->num_frames; ++frame) {
    track->frames[frame][0] *= task.pitch_factor;  // 0 where there is no voice
    for (int band = 0; band < tone->num_channels; ++band) {
      tone->frames[frame][band] *= task.tone;
    }
  }
  cst_audio_streaming_info ours{};
  ours.asc = pass_on;
  ours.min_buffsize = static_cast<int>(kEnglishRate / 5);  // 200 ms, as the other engine
  cst_wave* wave = mlsa_resynthesis(track, tone, &model, &ours, 0);
  delete_track(track);
  if (wave == nullptr) {
    flite_feat_set_int(utterance->features, "Interrupted", 1);
    wave = new_wave();
  }
  utt_set_wave(utterance, wave);
  return utterance;
}

}  // namespace

void start_english() {
  flite_init();
  for (Voice& voice : voices) {
    voice.voice = voice.make(nullptr);
    voice.stretch = flite_get_param_float(voice.voice->features, "duration_stretch", 1);
    flite_feat_set(voice.voice->features, "wave_synth_func", uttfunc_val(make_sound));
  }
}

bool speak_english(const Utterance& utterance, double speed, const SampleSink& sink) {
  const auto* const found = std::find_if(voices.begin(), voices.end(), [&](const Voice& voice) {
    return voice.name == utterance.voice;
  });
  if (found == voices.end() || found->voice == nullptr) {
    return false;
  }
  task = {.sink = &sink,
          .pitch_factor = static_cast<float>(std::pow(2.0, utterance.pitch / 1200.0)),
          .tone = 1 - static_cast<float>(std::min(utterance.breath_permille, 1000U)) / 1000};
  cst_features* const features = found->voice->features;
  flite_feat_set_float(features, "duration_stretch", found->stretch / static_cast<float>(speed));
  const auto option = [&](const char* name) {
    return flite_get_param_string(features, name, nullptr);
  };
  // Sentence by sentence, as flite cuts them. It speaks one when it has read the first word of the
  // next, which it forgets if the text ends right behind that word: so no text does.
  const std::string text = utterance.text + '\n';
  cst_tokenstream* const tokens = ts_open_string(text.c_str(),
                                                 option("text_whitespace"),
                                                 option("text_singlecharsymbols"),
                                                 option("text_prepunctuation"),
                                                 option("text_postpunctuation"));
  if (tokens != nullptr) {
    flite_ts_to_speech(tokens, found->voice, "stream");
  }
  return true;
}

}  // namespace audiogen::speech
