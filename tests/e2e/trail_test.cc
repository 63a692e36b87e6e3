// What became of a request, read from the logs of all processes by its id alone; and the trace that
// its client is in, which goes on to the providers.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/crypto.h"
#include "common/domain/trace.h"
#include "tests/e2e/chain.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::IsSubsetOf;
using testing::SizeIs;

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kParent = "00f067aa0ba902b7";
// Of a lost worker's task: its lease, and the next look.
constexpr auto kLost = 90s;

// A line of a log.
struct Line {
  std::string time, program, event, task, trace, worker, provider, span;
};

// `grep REQUEST_ID *.log | sort`: by their times, which all lines begin with.
std::vector<Line> grep(const Stack& stack, const std::string& request_id) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(stack.log_folder())) {
    if (entry.path().extension() != ".log") {
      continue;
    }
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.find(request_id) != std::string::npos) {
        found.push_back(line);
      }
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<Line> out;
  for (const std::string& text : found) {
    rapidjson::Document json;
    json.Parse(text.c_str());
    EXPECT_TRUE(json.IsObject()) << text;
    if (!json.IsObject()) {
      continue;
    }
    const auto member = [&](const char* name) {
      return json.HasMember(name) ? std::string(json[name].GetString()) : std::string();
    };
    EXPECT_EQ(member("request_id"), request_id) << text;
    out.push_back({member("time"),
                   member("program"),
                   member("event"),
                   member("task_id"),
                   member("trace_id"),
                   member("worker_id"),
                   member("provider"),
                   member("span_id")});
  }
  return out;
}

std::vector<std::string> events_of(const std::vector<Line>& lines) {
  std::vector<std::string> out;
  for (const Line& line : lines) {
    out.push_back(line.event + (line.provider.empty() ? "" : " (" + line.provider + ")"));
  }
  return out;
}

// Whether `steps` are among `events`, in this order.
bool in_order(const std::vector<std::string>& events, const std::vector<std::string>& steps) {
  auto at = events.begin();
  for (const std::string& step : steps) {
    at = std::find(at, events.end(), step);
    if (at == events.end()) {
      return false;
    }
    ++at;
  }
  return true;
}

// One provider that fails, and one that answers only the second time: by then the first worker is
// gone.
TEST(Trail, OneRequestIdTellsTheWholeLifeOverAllProcesses) {
  ProviderDouble first([](const DoubleCall&) {
    return DoubleReply{.status = 400, .body = R"({"error":{"code":"some_code"}})"};
  });
  std::atomic<int> asked{0};
  ProviderDouble second([&](const DoubleCall&) {
    return asked.fetch_add(1) == 0 ? DoubleReply{.form = DoubleReply::Form::kHang} : wav_reply(0.5);
  });
  const ChainFile chain({openai_entry("alpha", first), openai_entry("beta", second)});
  Stack stack(chain.options());
  const Account ann = stack.account();
  const std::string request_id = "trail-of-ann-1";
  const Reply created =
      stack.create(ann,
                   wav_body("hello"),
                   {"X-Request-Id: " + request_id,
                    std::string("traceparent: 00-") + kTrace + "-" + kParent + "-01",
                    "tracestate: rojo=00f067aa0ba902b7"});
  ASSERT_EQ(created.status, 202) << created.body;
  const std::string id = created.text("id");
  ASSERT_TRUE(second.wait_until([&] { return asked > 0; }));
  stack.worker(0).kill();
  stack.start_worker();
  ASSERT_EQ(stack.wait_final(ann, id, kLost).text("status"), "succeeded");

  const std::vector<std::string> steps = {"task created",
                                          "task hinted",
                                          "task claimed",
                                          "provider called (alpha)",
                                          "provider call failed (alpha)",
                                          "provider called (beta)",
                                          "task put back: its lease was lost",
                                          "task claimed",
                                          "provider called (alpha)",
                                          "provider called (beta)",
                                          "task succeeded"};
  std::vector<Line> lines;
  const bool told = eventually(30s, [&] {
    lines = grep(stack, request_id);
    return in_order(events_of(lines), steps);
  });
  EXPECT_TRUE(told) << testing::PrintToString(events_of(lines));
  std::set<std::string> workers, spans;
  for (const Line& line : lines) {
    EXPECT_EQ(line.task, id) << line.event;
    EXPECT_EQ(line.trace, kTrace) << line.event;
    EXPECT_EQ(line.worker.empty(), line.program == "audio-api") << line.event;
    if (!line.worker.empty()) {
      workers.insert(line.worker);
    }
    if (!line.span.empty()) {
      spans.insert(line.span);
    }
  }
  EXPECT_THAT(workers, SizeIs(2));

  // The same to the providers: of the client's trace, each call by a span of its own that the log
  // knows, and nothing of what is for the client's own systems.
  std::vector<DoubleCall> calls = first.calls();
  for (const DoubleCall& call : second.calls()) {
    calls.push_back(call);
  }
  ASSERT_THAT(calls, SizeIs(4));
  std::vector<std::string> told_spans;
  for (const DoubleCall& call : calls) {
    const auto span = parse_traceparent(call.header("traceparent"));
    ASSERT_TRUE(span) << call.head;
    EXPECT_EQ(to_hex(span->trace), kTrace);
    EXPECT_EQ(span->flags, TraceSpan::kSampled);
    told_spans.push_back(to_hex(span->span));
    EXPECT_EQ(call.header("tracestate"), "");
  }
  EXPECT_THAT(std::set<std::string>(told_spans.begin(), told_spans.end()), SizeIs(4));
  EXPECT_THAT(told_spans, IsSubsetOf(spans));
}

// Never an error, and never another answer: who sends nonsense has a trace of our own.
TEST(Trail, WhatIsNoTraceCountsAsNotGiven) {
  ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain({openai_entry("alpha", provider)});
  Stack stack(chain.options());
  const Account ann = stack.account();
  const std::string good = std::string("00-") + kTrace + "-" + kParent + "-01";
  const std::vector<std::vector<std::string>> nonsense = {
      {},
      {"traceparent: nonsense"},
      {"traceparent: ff-" + good.substr(3)},
      {"traceparent: 00-00000000000000000000000000000000-" + std::string(kParent) + "-01"},
      {"traceparent: " + good, "traceparent: " + good}};
  std::size_t calls = 0;
  for (const auto& headers : nonsense) {
    const Reply created = stack.create(ann, wav_body("hello"), headers);
    ASSERT_EQ(created.status, 202) << created.body;
    ASSERT_EQ(stack.wait_final(ann, created.text("id")).text("status"), "succeeded");
    ++calls;
  }
  std::set<std::string> traces;
  for (const DoubleCall& call : provider.calls()) {
    const auto span = parse_traceparent(call.header("traceparent"));
    ASSERT_TRUE(span) << call.head;
    EXPECT_EQ(span->flags, TraceSpan::kRandom);
    traces.insert(to_hex(span->trace));
  }
  EXPECT_THAT(traces, SizeIs(calls));
  EXPECT_EQ(traces.count(kTrace), 0U);
}

// Tasks of a release before, and those of nobody's request, have neither.
TEST(Trail, ATaskWithoutARequestIdIsWorkedOnAllTheSame) {
  ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain({openai_entry("alpha", provider)});
  Stack::Options options = chain.options();
  options.workers = 0;
  Stack stack(options);
  const Account ann = stack.account();
  const std::string id = stack.create(ann, wav_body("hello")).text("id");
  stack.database().execute(store::Sql("UPDATE tasks SET request_id=NULL, trace=NULL"));
  stack.start_worker();
  EXPECT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  ASSERT_THAT(provider.calls(), SizeIs(1));
  EXPECT_EQ(provider.calls().front().header("traceparent"), "");
}

}  // namespace
}  // namespace audiogen::test
