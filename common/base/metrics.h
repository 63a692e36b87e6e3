// The process's Prometheus registry. Counters and histograms are looked up once, at start, and kept
// by reference; updating one is an atomic operation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

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

// Everything in the Prometheus text format 0.0.4. Thread-safe.
std::string render();

}  // namespace audiogen::metrics
