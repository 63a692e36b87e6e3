#include "tests/bench/report.h"

#include <algorithm>
#include <cstdio>

namespace audiogen::bench {

std::string fixed(double value, int digits) {
  char out[64];
  std::snprintf(out, sizeof out, "%.*f", digits, value);
  return out;
}

void Report::begin(const std::string& driver, const std::string& measured) {
  section_.clear();
  goals_.clear();
  text("\n### " + driver + "\n\n" + measured + "\n");
}

void Report::table(const std::string& about) {
  text("\n" + about + "\n\n");
  text("| what | per second | of ceiling | p50 ms | p99 ms | p99.9 ms | CPU us per operation |\n");
  text("|---|---:|---:|---:|---:|---:|---|\n");
}

void Report::row(const Row& row, double operations, const Usage& before, const Usage& after) {
  double service = 0;
  std::string ours, others;
  costs_.clear();
  for (const auto& [part, used] : after) {
    const auto earlier = before.find(part);
    const double us =
        (used - (earlier == before.end() ? 0 : earlier->second)) / std::max(operations, 1.0) * 1e6;
    costs_[part] = us;
    const std::string cost = part + " " + fixed(us, 1);
    if (part == "load" || part == "provider") {
      others += " · " + cost;
    } else {
      service += us;
      ours += (ours.empty() ? "" : " · ") + cost;
    }
  }
  line(row, "service " + fixed(service, 1) + " (" + ours + ")" + others);
}

void Report::line(const Row& row, const std::string& costs) {
  std::string out = "| " + row.name + " | ";
  out += row.per_second > 0 ? fixed(row.per_second, 0) : "";
  out += " | " + (row.ceiling > 0
                      ? fixed(row.per_second / row.ceiling, 2) + " of " + fixed(row.ceiling, 0)
                      : std::string());
  for (const double q : {0.5, 0.99, 0.999}) {
    out += " | " + (row.latency != nullptr ? fixed(row.latency->quantile(q), 2) : std::string());
  }
  text(out + " | " + costs + (row.note.empty() ? "" : (costs.empty() ? "" : "; ") + row.note) +
       " |\n");
}

void Report::note(const std::string& sentence) {
  text("\n" + sentence + "\n");
}

double Report::cost(const std::string& part) const {
  const auto found = costs_.find(part);
  return found == costs_.end() ? 0 : found->second;
}

void Report::goal(const Goal& goal) {
  const bool met = goal.at_most ? goal.figure <= goal.target : goal.figure >= goal.target;
  const std::string unit = goal.unit.empty() ? "" : " " + goal.unit;
  goals_ += "| " + goal.what + " | " + (goal.at_most ? "≤ " : "≥ ") +
            fixed(goal.target, goal.digits) + unit + " | " + fixed(goal.figure, goal.digits) +
            unit + " | " + (met ? "yes" : "**no**") + " | ";
  if (goal.ceiling > 0) {
    goals_ += fixed(goal.ceiling, goal.digits) + " | " + fixed(goal.figure / goal.ceiling, 2);
  } else {
    goals_ += " | ";
  }
  goals_ += " |\n";
}

std::string Report::end() {
  if (!goals_.empty()) {
    text(
        "\n| | target | this run | met | ceiling of this run | of it |\n"
        "|---|---:|---:|---|---:|---:|\n" +
        goals_);
  }
  return section_;
}

void Report::text(const std::string& more) {
  section_ += more;
  std::fputs(more.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace audiogen::bench
