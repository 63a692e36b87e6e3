// Programs that read a clock which is wrong, by libfaketime: the time of day alone. What they
// measure by a steady clock stays true, as where an operator sets the date. Of a worker without
// sanitizers not: its allocator, jemalloc, asks for the time before libfaketime can tell it.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace audiogen::test {

// The environment of a program whose clock is `ahead` of the others', or behind them.
std::map<std::string, std::string> wrong_clock(std::chrono::seconds ahead);
// The same, by what set_clock() has put into `file` last; a program notices within two seconds.
std::map<std::string, std::string> movable_clock(const std::string& file);
void set_clock(const std::string& file, std::chrono::seconds ahead);

}  // namespace audiogen::test
