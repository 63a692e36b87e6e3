// SPDX-License-Identifier: GPL-3.0-or-later
//
// Speaks one request with espeak-ng and flite, in a process made for it.
#pragma once

#include <cstdint>
#include <string>

#include "worker/sandbox/sandbox.h"
#include "worker/speech/kana.h"
#include "worker/speech/protocol.h"

namespace audiogen::speech {

// Starts both engines. Returns espeak-ng's sample rate in Hz, or 0, and fills in the folder of its
// data. The engines are global: once per process.
std::uint32_t start_engine(std::string& data_folder);

// Enters the sandbox, speaks and writes the blocks of the answer (protocol.h), then exits. `rate`
// is start_engine()'s.
[[noreturn]] void speak_and_exit(const Request& request,
                                 std::uint32_t rate,
                                 const sandbox::Sandbox& sandbox,
                                 const KanaReader& kana);

}  // namespace audiogen::speech
