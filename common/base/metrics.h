// The process's Prometheus registry. Counters and histograms are looked up once, at start, and kept
// by reference; updating one is an atomic operation.
//
// Every name here is given without "audiogen_", which goes before all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/metric_family.h>

namespace audiogen::metrics {

using Labels = std::map<std::string, std::string>;

// Finds or makes the metric. Thread-safe. The reference lives as long as the process.
prometheus::Counter& counter(const std::string& name,
                             const std::string& help,
                             const Labels& labels = {});
prometheus::Gauge& gauge(const std::string& name,
                         const std::string& help,
                         const Labels& labels = {});

// How many values were how large. The library's takes a lock for each; this one is for what happens
// a hundred thousand times a second.
class Histogram {
 public:
  // Upper bounds, in order.
  explicit Histogram(std::vector<double> bounds);

  // Any thread, never blocks.
  void observe(double value) noexcept;
  prometheus::ClientMetric collect() const;

 private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;  // Between the bounds, and above the last one.
  std::atomic<double> sum_{0};
};

// Bounds are in the metric's unit (seconds for every *_seconds); of one name all have the same.
Histogram& histogram(
    const std::string& name,
    const std::string& help,
    const Labels& labels = {},
    const std::vector<double>& bounds = {
        .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120});

// Gauges as of one moment, which nobody keeps: what is not told any more is not there any more. For
// one thread at a time.
class Snapshot {
 public:
  Snapshot& gauge(const std::string& name,
                  const std::string& help,
                  double value,
                  const Labels& labels = {});
  const std::vector<prometheus::MetricFamily>& families() const { return families_; }

 private:
  std::vector<prometheus::MetricFamily> families_;
};

// Everything in the Prometheus text format 0.0.4, `more` included, and what the system knows of
// this process: of that the names are the usual ones, process_*. Thread-safe.
std::string render(const Snapshot& more = {});

// What build_info says from now on. `commit`: empty where it is not known.
void set_build(const std::string& version, const std::string& commit);

}  // namespace audiogen::metrics
