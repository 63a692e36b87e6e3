// SPDX-License-Identifier: GPL-3.0-or-later
//
// audio-speech: started by the worker, speaks one request per sandboxed child (protocol.h,
// worker/sandbox/zygote.h). A fresh child each time also makes equal requests sound equal.
#include <optional>
#include <string>

#include "worker/sandbox/zygote.h"
#include "worker/speech/engine.h"

namespace audiogen::speech {
namespace {

int run() {
  sandbox::settle_in();
  std::string data_folder;
  const std::uint32_t rate = start_engine(data_folder);
  const std::optional<sandbox::Sandbox> locked = sandbox::Sandbox::prepare({data_folder});
  const KanaReader kana;
  return sandbox::serve(kProtocolVersion,
                        rate > 0 && locked,
                        1,
                        [&](const std::string& packet, std::span<const int>) {
                          if (const std::optional<Request> request = decode(packet)) {
                            speak_and_exit(*request, rate, *locked, kana);
                          }
                        });
}

}  // namespace
}  // namespace audiogen::speech

int main() {
  return audiogen::speech::run();
}
