// provider-double: the double as a program of its own that speaks the openai format, for end-to-end
// tests and benchmarks. GET /calls tells how many requests it has had.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include <CLI/CLI.hpp>

#include "common/base/process.h"
#include "tests/support/provider_double.h"

namespace audiogen::test {
namespace {

struct Options {
  std::uint16_t port = 0;
  std::string audio_file;
  double seconds = 1.0;
  int delay_ms = 0;
  std::size_t long_every = 0;  // Of answers; 0: none is.
  int long_ms = 0;
  double failure_rate = 0.0;
  int failure_status = 503;
  DoubleReply::Form failure_form = DoubleReply::Form::kWhole;
  unsigned seed = 1;
};

const std::map<std::string, DoubleReply::Form> kForms = {
    {"status", DoubleReply::Form::kWhole},
    {"hang", DoubleReply::Form::kHang},
    {"reset", DoubleReply::Form::kReset},
    {"close", DoubleReply::Form::kClose},
    {"truncate", DoubleReply::Form::kTruncated},
    {"endless", DoubleReply::Form::kEndless},
    {"drip", DoubleReply::Form::kDrip},
    {"garbage", DoubleReply::Form::kGarbage},
};

std::string audio_of(const Options& options) {
  if (options.audio_file.empty()) {
    return tone_wav(options.seconds);
  }
  std::ifstream in(options.audio_file, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "provider-double: cannot read %s\n", options.audio_file.c_str());
    std::exit(1);  // Before any thread starts.
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

void serve(const Options& options) {
  const std::string audio = audio_of(options);
  std::minstd_rand random(options.seed);
  std::size_t served = 0;
  const auto script = [&](const DoubleCall& call) {
    DoubleReply reply;
    if (call.method == "GET") {
      reply.body = "{\"calls\":" + std::to_string(served) + "}\n";
      return reply;
    }
    ++served;
    const bool is_long = options.long_every > 0 && served % options.long_every == 0;
    reply.delay = std::chrono::milliseconds(is_long ? options.long_ms : options.delay_ms);
    if (std::uniform_real_distribution<double>(0.0, 1.0)(random) < options.failure_rate) {
      reply.form = options.failure_form;
      reply.status = options.failure_status;
      reply.headers = {"Content-Type: application/json"};
      reply.body = R"({"error":{"message":"scripted","type":"scripted","code":"scripted"}})";
      return reply;
    }
    reply.headers = {"Content-Type: audio/wav"};
    reply.body = audio;
    return reply;
  };
  ProviderDouble server(script, options.port);
  server.forget_bodies();
  std::printf("listening on %s\n", server.url().c_str());
  std::fflush(stdout);
  while (wait_for_signal() == Signal::kReload) {
  }
}

}  // namespace
}  // namespace audiogen::test

int main(int argc, char** argv) {
  audiogen::block_signals();
  audiogen::test::Options options;
  CLI::App app("A provider that does as it is told, until SIGTERM. Speaks POST …/audio/speech.");
  app.add_option("--port", options.port, "on 127.0.0.1; 0: a free one, printed");
  app.add_option("--audio", options.audio_file, "file to answer with; default: a tone as WAV");
  app.add_option("--seconds", options.seconds, "length of the tone");
  app.add_option("--delay-ms", options.delay_ms, "before each answer");
  app.add_option("--long-every", options.long_every, "of so many answers one takes --long-ms");
  app.add_option("--long-ms", options.long_ms, "before such an answer");
  app.add_option("--failure-rate", options.failure_rate, "part of the requests that fail, 0 to 1");
  app.add_option("--failure-status", options.failure_status, "status of those that fail");
  app.add_option("--failure-form", options.failure_form, "how they fail")
      ->transform(CLI::CheckedTransformer(audiogen::test::kForms));
  app.add_option("--seed", options.seed, "of the dice: equal seeds fail the same requests");
  CLI11_PARSE(app, argc, argv);
  audiogen::test::serve(options);
  return 0;
}
