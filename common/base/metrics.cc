#include "common/base/metrics.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mutex.h"

namespace audiogen::metrics {
namespace {

constexpr char kPrefix[] = "audiogen_";

prometheus::Registry& registry() {
  // Merge: asking for a family twice gives the same one.
  static prometheus::Registry instance(prometheus::Registry::InsertBehavior::Merge);
  return instance;
}

// By name: what it means, and its histograms by their labels.
struct Histograms {
  struct Family {
    std::string help;
    std::map<Labels, Histogram> all;
  };
  Mutex mutex;
  std::map<std::string, Family> families GUARDED_BY(mutex);
};

Histograms& histograms() {
  static Histograms instance;
  return instance;
}

void label(prometheus::ClientMetric& metric, const Labels& labels) {
  for (const auto& [name, content] : labels) {
    metric.label.push_back({name, content});
  }
}

prometheus::MetricFamily family(std::string name, std::string help, prometheus::MetricType type) {
  prometheus::MetricFamily out;
  out.name = std::move(name);
  out.help = std::move(help);
  out.type = type;
  return out;
}

// Since Linux 6.2 the folder's size is their number; before, its entries are to be counted, which
// takes milliseconds where there are thousands.
std::optional<std::uint64_t> open_descriptors() {
  constexpr char kFolder[] = "/proc/self/fd";
  struct stat folder {};
  if (::stat(kFolder, &folder) == 0 && folder.st_size > 0) {
    return static_cast<std::uint64_t>(folder.st_size);
  }
  std::error_code failed;
  const std::filesystem::directory_iterator open(kFolder, failed);
  return failed ? std::nullopt
                : std::optional(static_cast<std::uint64_t>(std::distance(begin(open), end(open))));
}

void add_histograms(std::vector<prometheus::MetricFamily>& out) {
  Histograms& all = histograms();
  const MutexLock lock(all.mutex);
  for (const auto& [name, one] : all.families) {
    out.push_back(family(name, one.help, prometheus::MetricType::Histogram));
    for (const auto& [labels, histogram] : one.all) {
      out.back().metric.push_back(histogram.collect());
      label(out.back().metric.back(), labels);
    }
  }
}

void add_process(std::vector<prometheus::MetricFamily>& out) {
  using prometheus::MetricType;
  const auto add =
      [&](const char* name, const char* help, double value, MetricType type = MetricType::Gauge) {
        prometheus::ClientMetric metric;
        (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
        out.push_back(family(name, help, type));
        out.back().metric.push_back(metric);
      };
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) == 0) {
    const auto seconds = [](const timeval& time) {
      constexpr double kMicroseconds = 1e6;
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / kMicroseconds;
    };
    add("process_cpu_seconds_total",
        "Processor time used, of the system included",
        seconds(used.ru_utime) + seconds(used.ru_stime),
        MetricType::Counter);
  }
  std::uint64_t pages = 0, resident = 0;
  if (std::ifstream("/proc/self/statm") >> pages >> resident) {
    const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
    add("process_virtual_memory_bytes", "Addresses in use", static_cast<double>(pages) * page);
    add("process_resident_memory_bytes", "Memory in use", static_cast<double>(resident) * page);
  }
  // After the name, which may hold anything and ends with the last bracket: field 22 of proc(5).
  std::string stat;
  std::getline(std::ifstream("/proc/self/stat"), stat);
  std::uint64_t boot = 0;
  std::ifstream kernel("/proc/stat");
  for (std::string line; boot == 0 && std::getline(kernel, line);) {
    std::istringstream(line.starts_with("btime ") ? line.substr(6) : "0") >> boot;
  }
  std::istringstream fields(stat.substr(std::min(stat.rfind(')'), stat.size() - 1) + 1));
  constexpr int kThreadsField = 17, kStartField = 19;  // Counted from the one after the name.
  double threads = 0, start = 0;
  int at = 0;
  for (std::string field; fields >> field && at < kStartField + 1; ++at) {
    if (at == kThreadsField) {
      threads = std::stod(field);
    } else if (at == kStartField) {
      start = std::stod(field);
    }
  }
  if (at > kStartField && boot > 0) {
    add("process_threads", "Threads", threads);
    add("process_start_time_seconds",
        "When it was started, since 1970",
        static_cast<double>(boot) + start / static_cast<double>(::sysconf(_SC_CLK_TCK)));
  }
  if (const auto open = open_descriptors()) {
    add("process_open_fds", "Descriptors in use", static_cast<double>(*open));
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    add("process_max_fds", "Descriptors there may be", static_cast<double>(limit.rlim_cur));
  }
}

}  // namespace

prometheus::Counter& counter(const std::string& name,
                             const std::string& help,
                             const Labels& labels) {
  return prometheus::BuildCounter()
      .Name(kPrefix + name)
      .Help(help)
      .Register(registry())
      .Add(labels);
}

prometheus::Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels) {
  return prometheus::BuildGauge().Name(kPrefix + name).Help(help).Register(registry()).Add(labels);
}

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value) noexcept {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<std::size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

prometheus::ClientMetric Histogram::collect() const {
  prometheus::ClientMetric out;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i].load(std::memory_order_relaxed);
    out.histogram.bucket.push_back(
        {.cumulative_count = count,
         .upper_bound = i < bounds_.size() ? bounds_[i] : std::numeric_limits<double>::infinity()});
  }
  out.histogram.sample_count = count;
  out.histogram.sample_sum = sum_.load(std::memory_order_relaxed);
  return out;
}

Histogram& histogram(const std::string& name,
                     const std::string& help,
                     const Labels& labels,
                     const std::vector<double>& bounds) {
  Histograms& all = histograms();
  const MutexLock lock(all.mutex);
  auto& [text, found] = all.families[kPrefix + name];
  text = help;
  return found.try_emplace(labels, bounds).first->second;
}

Snapshot& Snapshot::gauge(const std::string& name,
                          const std::string& help,
                          double value,
                          const Labels& labels) {
  auto found = std::find_if(families_.begin(), families_.end(), [&](const auto& one) {
    return one.name == kPrefix + name;
  });
  if (found == families_.end()) {
    families_.push_back(family(kPrefix + name, help, prometheus::MetricType::Gauge));
    found = families_.end() - 1;
  }
  prometheus::ClientMetric metric;
  label(metric, labels);
  metric.gauge.value = value;
  found->metric.push_back(std::move(metric));
  return *this;
}

std::string render(const Snapshot& more) {
  auto families = registry().Collect();
  families.insert(families.end(), more.families().begin(), more.families().end());
  add_histograms(families);
  add_process(families);
  return prometheus::TextSerializer().Serialize(families);
}

void set_build(const std::string& version, const std::string& commit) {
  gauge("build_info",
        "1; what this program was built of",
        {{"version", version}, {"commit", commit.empty() ? "unknown" : commit}})
      .Set(1);
}

}  // namespace audiogen::metrics
