#include "common/base/metrics.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace audiogen::metrics {
namespace {

prometheus::Registry& registry() {
  // Merge: asking for a family twice gives the same one.
  static prometheus::Registry instance(prometheus::Registry::InsertBehavior::Merge);
  return instance;
}

}  // namespace

prometheus::Counter& counter(const std::string& name,
                             const std::string& help,
                             const Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry()).Add(labels);
}

prometheus::Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry()).Add(labels);
}

prometheus::Histogram& histogram(const std::string& name,
                                 const std::string& help,
                                 const Labels& labels,
                                 const std::vector<double>& buckets) {
  return prometheus::BuildHistogram()
      .Name(name)
      .Help(help)
      .Register(registry())
      .Add(labels, buckets);
}

std::string render() {
  return prometheus::TextSerializer().Serialize(registry().Collect());
}

}  // namespace audiogen::metrics
