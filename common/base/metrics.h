// The process's Prometheus registry. Counters and histograms are looked up once, at start, and kept
// by reference; updating one is an atomic operation.
//
// Every name here is given without "audiogen_", which goes before all of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
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
// Buckets are upper bounds in the metric's unit (seconds for every *_seconds).
prometheus::Histogram& histogram(
    const std::string& name,
    const std::string& help,
    const Labels& labels = {},
    const std::vector<double>& buckets = {
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
