// The tables of the results, printed as they come.
#pragma once

#include <map>
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

// What is asked of the service, and what the run gave. Reported, never asserted: figures move with
// the machine, ratios to the ceiling hardly.
struct Goal {
  std::string what;
  double figure = 0;
  double target = 0;
  std::string unit;
  bool at_most = false;  // Else at least.
  double ceiling = 0;    // 0: none.
  int digits = 0;
};

class Report {
 public:
  // Begins what a driver has to say, measured there and then, with nothing of those before it.
  void begin(const std::string& driver, const std::string& measured);
  // Begins its table.
  void table(const std::string& about);
  // With the CPU time that each of `operations` took of each part: they happened while the
  // parts used `before` … `after`.
  void row(const Row& row, double operations, const Usage& before, const Usage& after);
  // With `costs` and the note in the last column.
  void line(const Row& row, const std::string& costs = "");
  void note(const std::string& sentence);
  // The CPU time of `part` per operation in the last row(), in us.
  double cost(const std::string& part) const;
  void goal(const Goal& goal);
  // All that it has said, with the table of its goals at the end.
  std::string end();

 private:
  void text(const std::string& more);

  std::string section_, goals_;
  std::map<std::string, double> costs_;  // Of the last row.
};

}  // namespace audiogen::bench
