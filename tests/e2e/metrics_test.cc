// What both programs tell monitors is what README.md says: names, kinds, labels, meanings, and no
// more series than there can be, whatever clients send.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/chain.h"
#include "tests/support/places.h"
#include "tests/support/wait.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsSubsetOf;
using testing::Not;

struct Metric {
  std::string type, help;
  std::set<std::string> labels;
  std::map<std::string, std::set<std::string>> values;  // Of each label.
  std::size_t series = 0;

  std::string row(const std::string& name, const std::string& told_by) const {
    std::string out = "| `" + name;
    for (const std::string& label : labels) {
      out += (out.find('{') == std::string::npos ? "{" : ",") + label;
    }
    return out + (labels.empty() ? "" : "}") + "` | " + type + " | " + told_by + " | " + help +
           " |";
  }
};
using Metrics = std::map<std::string, Metric>;

constexpr std::string_view kPrefix = "audiogen_";

// `name` without what a histogram adds to it.
std::string family_of(const std::string& name, const Metrics& metrics) {
  for (const std::string_view end : {"_bucket", "_sum", "_count"}) {
    if (name.ends_with(end)) {
      const auto found = metrics.find(name.substr(0, name.size() - end.size()));
      if (found != metrics.end() && found->second.type == "histogram") {
        return found->first;
      }
    }
  }
  return name;
}

void read_labels(const std::string& text, Metric& metric) {
  for (std::size_t at = 0; at < text.size();) {
    const auto equals = text.find("=\"", at);
    const auto end = text.find('"', equals + 2);
    const std::string name = text.substr(at, equals - at);
    if (name != "le") {
      metric.labels.insert(name);
      metric.values[name].insert(text.substr(equals + 2, end - equals - 2));
    }
    at = end + 2;
  }
}

// Our own of what a program tells, by their names without the prefix.
Metrics scrape(const std::string& ops_url) {
  Metrics out;
  std::istringstream lines(http("GET", ops_url + "/metrics").body);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, what, name;
    if (line.starts_with("# ")) {
      words >> hash >> what >> name;
      std::string rest;
      std::getline(words >> std::ws, rest);
      if (name.starts_with(kPrefix)) {
        Metric& metric = out[name.substr(kPrefix.size())];
        (what == "HELP" ? metric.help : metric.type) = rest;
      }
      continue;
    }
    if (!line.starts_with(kPrefix)) {
      continue;
    }
    const auto brace = line.find('{'), space = line.rfind(' ');
    name = family_of(line.substr(kPrefix.size(), std::min(brace, space) - kPrefix.size()), out);
    EXPECT_TRUE(out.contains(name)) << line;
    Metric& metric = out[name];
    ++metric.series;
    if (brace < space) {
      read_labels(line.substr(brace + 1, space - brace - 2), metric);
    }
  }
  return out;
}

struct Row {
  std::string text, told_by;
};

// The table of README.md, by name.
std::map<std::string, Row> table() {
  std::map<std::string, Row> out;
  std::ifstream lines(source_path("README.md"));
  bool there = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| metric |")) {
      there = true;
    } else if (there && line.empty()) {
      break;
    } else if (there && line.starts_with("| `")) {
      const std::string name = line.substr(3, line.find_first_of("{`", 3) - 3);
      std::vector<std::string> cells;
      for (std::size_t at = 2; at < line.size();) {
        const auto end = std::min(line.find(" | ", at), line.size() - 2);
        cells.push_back(line.substr(at, end - at));
        at = end + 3;
      }
      EXPECT_EQ(cells.size(), 4U) << line;
      EXPECT_FALSE(out.contains(name)) << "twice: " << name;
      out[name] = {.text = line, .told_by = cells.at(2)};
    }
  }
  EXPECT_FALSE(out.empty());
  return out;
}

const std::string kOpsToken = "ops-canary-of-forty-characters-at-the-least";

class MetricsTest : public testing::Test {
 protected:
  MetricsTest()
      : provider_([](const DoubleCall&) { return wav_reply(0.3); }),
        chain_({openai_entry("primary", provider_, R"(,"price":{"amount":0.02,"per":"call"})"),
                kLocalEntry}),
        stack_(options()) {}

  Stack::Options options() const {
    Stack::Options out = chain_.options();
    out.environment["RATE_LIMIT_READ_PER_MINUTE"] = "6000";
    out.environment["RATE_LIMIT_READ_BURST"] = "50";
    out.environment["OPS_TOKEN"] = kOpsToken;
    return out;
  }

  // Some of everything that people do.
  void drive() {
    const Account ann = stack_.account();
    for (const std::string& body : {wav_body("One."), Stack::body("Two."), Stack::body("Three.")}) {
      const std::string id = stack_.create(ann, body).text("id");
      ids_.push_back(id);
      EXPECT_EQ(stack_.wait_final(ann, id).text("status"), "succeeded");
    }
    ids_.push_back(ann.user);
    ids_.push_back(ann.email);
    ids_.push_back(ann.key);
    stack_.admin({"audit"});
    // What looks like an attempt, and what operators ask for: here of a task that has ended.
    EXPECT_EQ(http("GET", stack_.base() + "/account").status, 401);
    const std::string actions = stack_.ops_url() + "/ops/actions";
    EXPECT_EQ(http("GET", actions, Stack::bearer("guess")).status, 401);
    const std::string cancel =
        R"({"action":"cancel_task","target":")" + ids_.front() + R"(","reason":"a test's"})";
    EXPECT_EQ(http("POST", actions, Stack::bearer(kOpsToken), cancel).status, 409);
  }

  ProviderDouble provider_;
  ChainFile chain_;
  Stack stack_;
  std::vector<std::string> ids_;  // What no metric may name.
};

TEST_F(MetricsTest, AreThoseOfTheTableAndNoOthers) {
  drive();
  Metrics api, worker;
  // How the service stands is told once it was looked at, the broker's part half a minute later.
  ASSERT_TRUE(eventually(60s, [&] {
    api = scrape(stack_.ops_url());
    return api.contains("audit_violations") && api.contains("dead_messages") &&
           api.contains("drain_seconds");
  }));
  worker = scrape(stack_.worker_ops_url(0));
  auto rows = table();
  std::set<std::string> seen;
  std::string missing;
  const auto compare = [&](const std::string& name, const Metric& metric) {
    if (!seen.insert(name).second) {
      return;
    }
    const bool by_api = api.contains(name), by_worker = worker.contains(name);
    Metric all = metric;  // A label may be there in one program alone.
    all.labels.merge(std::set(by_api ? api[name].labels : std::set<std::string>()));
    all.labels.merge(std::set(by_worker ? worker[name].labels : std::set<std::string>()));
    const auto row = rows.find(name);
    const std::string said = row == rows.end() ? "" : row->second.told_by;
    const std::string told = by_api && by_worker ? "both" : by_worker ? "worker" : "API";
    // Which of the API's are told by one process alone, only the table says.
    const std::string told_by = said == "one" && told == "API" ? "one" : told;
    const std::string expected = all.row(name, told_by);
    if (row == rows.end() || row->second.text != expected) {
      missing += expected + "\n";
    }
  };
  for (const Metrics& metrics : {api, worker}) {
    for (const auto& [name, metric] : metrics) {
      compare(name, metric);
    }
  }
  EXPECT_EQ(missing, "") << "README.md has to say so";
  for (const auto& [name, row] : rows) {
    // Of the others it says when they are there: "API, with mail".
    EXPECT_TRUE(seen.contains(name) || row.told_by.find(", with") != std::string::npos) << name;
  }
}

TEST_F(MetricsTest, HaveAsManySeriesAsThereCanBeAndNameNobody) {
  drive();
  const auto counts = [&] {
    std::map<std::string, std::size_t> out;
    for (const std::string& ops : {stack_.ops_url(), stack_.worker_ops_url(0)}) {
      for (const auto& [name, metric] : scrape(ops)) {
        out[ops + " " + name] = metric.series;
      }
    }
    return out;
  };
  const auto send = [&](int number) {
    const std::string text = std::to_string(number);
    http("GET", stack_.base() + "/no-such-path-" + text);
    http(
        "GET", stack_.base() + "/audio/generations/aud_" + text, Stack::bearer("svc_live_" + text));
    http("X" + text, stack_.base() + "/audio/generations");
    http("GET", stack_.public_url() + "/files/" + text);
  };
  send(0);
  const auto before = counts();
  for (int i = 1; i < 40; ++i) {
    send(i);
  }
  const auto after = counts();
  for (const auto& [name, count] : after) {
    if (name.find("http_requests_total") == std::string::npos || !before.contains(name)) {
      continue;
    }
    EXPECT_EQ(count, before.at(name)) << name;
  }
  for (const std::string& ops : {stack_.ops_url(), stack_.worker_ops_url(0)}) {
    for (const auto& [name, metric] : scrape(ops)) {
      for (const auto& [label, values] : metric.values) {
        EXPECT_LE(values.size(), label == "route" ? 120U : 30U) << name << " " << label;
      }
    }
    const std::string text = http("GET", ops + "/metrics").body;
    for (const std::string& id : ids_) {
      EXPECT_THAT(text, Not(HasSubstr(id)));
    }
  }
}

// The route, method and status of each, however it is refused.
TEST_F(MetricsTest, EachRequestCountsOnceByItsRoute) {
  const Account ann = stack_.account();
  const auto count = [&](const std::string& labels) {
    const std::string text = http("GET", stack_.ops_url() + "/metrics").body;
    const std::string line = "\naudiogen_http_requests_total{" + labels + "} ";
    const auto at = text.find(line);
    return at == std::string::npos ? 0 : std::stod(text.substr(at + line.size()));
  };
  const auto key = Stack::bearer(ann.key);
  const std::string id = stack_.create(ann, wav_body("x")).text("id");
  for (int i = 0; i < 3; ++i) {
    http("GET", stack_.base() + "/audio/generations/" + id, key);
  }
  http("GET", stack_.base() + "/audio/generations/aud_01jd0000000000000000000000", key);
  http("GET", stack_.base() + "/audio/generations/" + id);
  http("PUT", stack_.base() + "/audio/generations", key);
  http("POST", stack_.base() + "/audio/generations", key, "{");
  http("GET", stack_.public_url() + "/nowhere");
  const std::string one = R"(route="/api/v1/audio/generations/{task_id}",)";
  const std::string many = R"(route="/api/v1/audio/generations",)";
  EXPECT_EQ(count(R"(method="POST",)" + many + R"(status="202")"), 1);
  EXPECT_EQ(count(R"(method="GET",)" + one + R"(status="200")"), 3);
  EXPECT_EQ(count(R"(method="GET",)" + one + R"(status="404")"), 1);
  EXPECT_EQ(count(R"(method="GET",)" + one + R"(status="401")"), 1);
  EXPECT_EQ(count(R"(method="PUT",)" + many + R"(status="405")"), 1);
  EXPECT_EQ(count(R"(method="POST",)" + many + R"(status="400")"), 1);
  EXPECT_EQ(count(R"(method="GET",route="none",status="404")"), 1);
  EXPECT_THAT(http("GET", stack_.ops_url() + "/metrics").body,
              HasSubstr("\naudiogen_http_request_duration_seconds_count{" +
                        one.substr(0, one.size() - 1) + "} 5\n"));
}

}  // namespace
}  // namespace audiogen::test
