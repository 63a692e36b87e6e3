// The tables of the results, printed as they come.
#pragma once

#include <string>

#include "tests/bench/load.h"
#include "tests/bench/stand.h"

namespace audiogen::bench {

// A number with so many digits after the point.
std::string fixed(double value, int digits);

struct Row {
  std::string name{};
  double per_second = 0;
  const Histogram* latency = nullptr;
  double ceiling = 0;  // Per second; 0: none.
  std::string note{};
};

class Report {
 public:
  // Begins the table of a driver.
  void begin(const std::string& driver, const std::string& about);
  // With the CPU time that each of `operations` took of each part: they happened while the
  // parts used `before` … `after`.
  void row(const Row& row, double operations, const Usage& before, const Usage& after);
  // With `costs` and the note in the last column.
  void line(const Row& row, const std::string& costs = "");
  void note(const std::string& sentence);
  const std::string& all() const { return all_; }

 private:
  void text(const std::string& more);

  std::string all_;
};

}  // namespace audiogen::bench
