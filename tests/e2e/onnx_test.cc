// A model of the operator's in the chain: what it makes is delivered and charged like all else,
// what it cannot do goes to the next entry, and one that does not load is no chain.
#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/domain/pricing.h"
#include "tests/e2e/chain.h"
#include "tests/support/onnx_model.h"
#include "tests/support/places.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

std::string model_entry(const TinyModel& tiny, const std::string& more = "") {
  return R"({"name":"mine","kind":"onnx",)" + more +
         R"("voices":{"aria":"0","atlas":"2"},"options":{"folder":")" + tiny.folder().string() +
         R"(","runtime":")" + onnx_runtime() + "\"}}";
}

TEST(OwnModel, IsDeliveredAndChargedLikeAllElse) {
  const TinyModel tiny;
  const ChainFile chain({model_entry(tiny), kLocalEntry});
  Stack stack(chain.options());
  const Account ann = stack.account();
  // Three tokens, one between the words, two: at normal speed a tenth of a second each.
  for (const auto& [more, seconds] : {std::pair{"", 0.6},
                                      std::pair{R"(,"speed":2.0,"voice":"atlas")", 0.3},
                                      std::pair{R"(,"speed":0.5,"sample_rate":48000)", 1.2}}) {
    const std::string id = stack.create(ann, wav_body("Hello world", more)).text("id");
    const Reply done = stack.wait_final(ann, id);
    ASSERT_EQ(done.text("status"), "succeeded") << done.body;
    EXPECT_NEAR(std::stod(done.text("output.duration_seconds")), seconds, 0.002);
    EXPECT_EQ(done.text("usage.credits"), format_credits(charge_for(std::llround(seconds * 1000))));
    EXPECT_THAT(calls_of(stack, id), ElementsAre("mine succeeded"));
  }
  stack.database().expect_invariants();
}

TEST(OwnModel, WhatItCannotDoGoesToTheNextAndHarmsNobody) {
  const TinyModel tiny;
  const ChainFile chain({model_entry(tiny), kLocalEntry});
  Stack stack(chain.options());
  const Account ann = stack.account();
  // More than would open a breaker, if they were the provider's fault.
  for (const char* text : {"crash", "zebra", "crash", "crash", "crash", "crash"}) {
    const std::string id = stack.create(ann, wav_body(text)).text("id");
    ASSERT_EQ(stack.wait_final(ann, id).text("status"), "succeeded") << text;
    EXPECT_THAT(calls_of(stack, id), ElementsAre("mine failed", "local succeeded")) << text;
  }
  const std::string id = stack.create(ann, wav_body("hello")).text("id");
  ASSERT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  EXPECT_THAT(calls_of(stack, id), ElementsAre("mine succeeded"));
  stack.database().expect_invariants();
}

TEST(OwnModel, WhatItComesToNoEndWithGoesToTheNext) {
  const TinyModel tiny;
  const ChainFile chain({model_entry(tiny, R"("timeout_seconds":2,)"), kLocalEntry});
  Stack stack(chain.options());
  const Account ann = stack.account();
  const std::string id = stack.create(ann, wav_body("hang")).text("id");
  ASSERT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  EXPECT_THAT(calls_of(stack, id), ElementsAre("mine failed", "local succeeded"));
}

// How many programs of this name a process has started.
int programs_of(pid_t parent, const std::string& name) {
  int out = 0;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(parent) + "/task")) {
    std::ifstream children(task.path() / "children");
    for (std::istream_iterator<std::string> one(children), end; one != end; ++one) {
      std::string program;
      std::getline(std::ifstream("/proc/" + *one + "/comm"), program);
      out += program == name ? 1 : 0;
    }
  }
  return out;
}

TEST(OwnModel, IsInMemoryOnceWhenTheChainIsReadAgain) {
  const TinyModel tiny;
  const ChainFile chain({model_entry(tiny), kLocalEntry});
  Stack stack(chain.options());
  const pid_t worker = stack.worker(0).pid();
  ASSERT_EQ(programs_of(worker, "audio-onnx"), 1);
  stack.worker(0).signal(SIGHUP);
  ASSERT_TRUE(eventually(
      60s, [&] { return stack.worker(0).log().find("providers reloaded") != std::string::npos; }));
  EXPECT_TRUE(eventually(60s, [&] { return programs_of(worker, "audio-onnx") == 1; }));
}

TEST(OwnModel, OneThatDoesNotLoadIsToldAtTheStart) {
  const TinyModel tiny;
  const ChainFile chain({kLocalEntry});
  Stack stack(chain.options());
  tiny.write("model.onnx", "not a model");
  chain.write({model_entry(tiny),
               R"({"name":"gone","kind":"onnx","voices":{"aria":"0"},)"
               R"("options":{"folder":"/nowhere","runtime":"/nowhere"}})"});
  // A worker that runs keeps the chain that it has.
  stack.worker(0).signal(SIGHUP);
  ASSERT_TRUE(eventually(60s, [&] {
    return stack.worker(0).log().find("providers not reloaded") != std::string::npos;
  }));
  const Account ann = stack.account();
  const std::string id = stack.create(ann, wav_body("hello")).text("id");
  ASSERT_EQ(stack.wait_final(ann, id).text("status"), "succeeded");
  EXPECT_THAT(calls_of(stack, id), ElementsAre("local succeeded"));
  // Another does not start.
  auto environment = stack.environment();
  environment["DATABASE_URL"] = stack.database_url("worker");
  Process other({program_path("audio-worker")}, environment, stack.log_folder() + "/other.log");
  EXPECT_EQ(other.wait(60s), 1);
  for (const std::string& log : {stack.worker(0).log(), other.log()}) {
    EXPECT_THAT(log, HasSubstr("(mine) the model does not load: "));
    EXPECT_THAT(log, HasSubstr("parsing failed"));
    EXPECT_THAT(log, HasSubstr("(gone) the runtime is not installed"));
  }
}

}  // namespace
}  // namespace audiogen::test
