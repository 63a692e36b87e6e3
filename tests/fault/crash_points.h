// Between which effects of one task a program may die, in the order in which it passes them.
#pragma once

#include <array>

namespace audiogen::test {

inline constexpr std::array kApiCrashPoints = {"create.begin",
                                               "create.locked",
                                               "create.inserted",
                                               "store.commit_sent",
                                               "store.committed",
                                               "create.committed",
                                               "create.replied",
                                               "publisher.sent",
                                               "publisher.confirmed"};

inline constexpr std::array kWorkerCrashPoints = {"worker.delivered",
                                                  "worker.claimed",
                                                  "worker.call_row",
                                                  "worker.answered",
                                                  "blob.written",
                                                  "worker.stored",
                                                  "settle.locked",
                                                  "settle.written",
                                                  "worker.settled"};

}  // namespace audiogen::test
