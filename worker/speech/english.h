// SPDX-License-Identifier: GPL-3.0-or-later
//
// English with flite, whose voices were made of recordings of people.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "worker/speech/protocol.h"

namespace audiogen::speech {

inline constexpr std::uint32_t kEnglishRate = 16000;  // Hz, of all of flite's voices

// Takes samples as they are made; false when it wants no more.
using SampleSink = std::function<bool(std::span<const short>)>;

// Makes flite and its voices ready. Once per process, before the sandbox: they are global.
void start_english();

// Speaks an utterance of Engine::kFlite at `speed` times the voice's own. False when there is no
// such voice.
bool speak_english(const Utterance& utterance, double speed, const SampleSink& sink);

}  // namespace audiogen::speech
