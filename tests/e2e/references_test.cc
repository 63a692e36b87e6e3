// References and images: fetched, examined, handed on, or refused with a reason and a full refund.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/e2e/chain.h"
#include "tests/support/closed_port.h"
#include "worker/audio/reference.h"

namespace audiogen::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;
using Form = DoubleReply::Form;

// The smallest PNG there is: one grey pixel.
const std::string kPng(
    "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9c"
    "c`\0\0\0\2\0\1H\xaf\xa4q\0\0\0\0IEND\xae"
    "B`\x82",
    67);

DoubleReply file(std::string body) {
  return {.headers = {"Content-Type: text/plain"}, .body = std::move(body)};  // Never believed.
}

DoubleReply redirect(std::string to) {
  return {.status = 302, .headers = {"Location: " + std::move(to)}};
}

std::string silent_wav() {
  std::string out = tone_wav(1.0);
  std::memset(out.data() + 44, 0, out.size() - 44);
  return out;
}

// Serves the files that requests refer to, by path.
DoubleReply shelf(const DoubleCall& call) {
  const std::string& path = call.target;
  if (path == "/good.wav" || path == "/loop3/0") {
    return file(tone_wav(1.0));
  }
  if (path == "/moved.wav") {
    return redirect("good.wav");
  }
  if (path.starts_with("/loop")) {
    return redirect(path + "x");
  }
  if (path == "/flaky.wav") {
    return call.number % 2 == 0 ? DoubleReply{.status = 503} : file(tone_wav(1.0));
  }
  if (path == "/short.wav") {
    return file(tone_wav(0.4));
  }
  if (path == "/long.wav") {
    return file(tone_wav(30.1));
  }
  if (path == "/silent.wav") {
    return file(silent_wav());
  }
  if (path == "/big.wav") {
    return file(tone_wav(1.0) + std::string(10U << 20U, '\0'));
  }
  if (path == "/endless.wav") {
    return {.body = std::string(65536, 'x'), .form = Form::kEndless};
  }
  if (path == "/page.html") {
    return file("<!DOCTYPE html><title>no</title>");
  }
  if (path == "/pixel.png") {
    return file(kPng);
  }
  if (path == "/half.png") {
    return file(kPng.substr(0, 45));
  }
  if (path == "/broken") {
    return {.form = Form::kReset};
  }
  return {.status = path == "/secret" ? 403 : 404};
}

std::string body_with(const std::string& member) {
  return R"({"model":"svc-audio-1.0","output_format":"wav","prompt":"Say this as @Audio1 does.",)" +
         member + "}";
}

std::string sounds(const std::vector<std::string>& urls) {
  std::string out;
  for (const std::string& url : urls) {
    out += (out.empty() ? "\"" : ",\"") + url + "\"";
  }
  return "\"audio_references\":[" + out + "]";
}

Stack::Options any_address(Stack::Options options = {}) {
  options.environment["URL_POLICY"] = "any";
  return options;
}

TEST(References, WhatCannotBeUsedIsNamedAndRefunded) {
  const ProviderDouble files(shelf);
  Stack stack(any_address());
  const Account ann = stack.account(10'000);
  const auto at = [&](const char* path) { return files.url() + path; };
  struct Case {
    std::vector<std::string> paths;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{"/missing.wav"}, "audio_references[0] cannot be used: its server answered 404."},
      {{"/good.wav", "/secret"}, "audio_references[1] cannot be used: its server answered 403."},
      {{"/broken"}, "audio_references[0] cannot be used: its server did not deliver it in time."},
      {{"/page.html"},
       "audio_references[0] cannot be used: it is not a WAV, MP3, Ogg or FLAC file."},
      {{"/good.wav", "/good.wav", "/short.wav"},
       "audio_references[2] cannot be used: it is shorter than 0.5 seconds."},
      {{"/long.wav"}, "audio_references[0] cannot be used: it is longer than 30 seconds."},
      {{"/silent.wav"}, "audio_references[0] cannot be used: it is silent."},
      {{"/big.wav"}, "audio_references[0] cannot be used: it is larger than 10 MB."},
      {{"/endless.wav"}, "audio_references[0] cannot be used: it is larger than 10 MB."},
      {{"/loop/0"},
       "audio_references[0] cannot be used: its server redirects too often or to nowhere."},
  };
  for (const Case& one : cases) {
    std::vector<std::string> urls;
    for (const std::string& path : one.paths) {
      urls.push_back(at(path.c_str()));
    }
    const Reply done = stack.wait_final(ann, stack.create(ann, body_with(sounds(urls))).text("id"));
    EXPECT_EQ(done.text("status"), "failed") << one.message;
    EXPECT_EQ(done.text("error.code"), "reference_unavailable") << one.message;
    EXPECT_EQ(done.text("error.message"), one.message);
    EXPECT_EQ(done.text("billing"),
              R"({"reserved_credits":150,"charged_credits":0,"returned_credits":150})");
  }
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 10'000);
  stack.database().expect_invariants();
}

// What follows the question mark is often what lets one read the file: a signature, a token. It
// goes to that server and nowhere else, least of all into a log, whatever goes wrong.
TEST(References, TheirQueriesAreNeverLogged) {
  const std::string canary = "canary-of-the-query";
  const ProviderDouble files([&](const DoubleCall& call) {
    DoubleCall without = call;
    without.target.resize(std::min(call.target.find('?'), call.target.size()));
    if (without.target == "/elsewhere") {
      return redirect("http://no-such-host.invalid/a.wav?token=" + canary);
    }
    if (without.target == "/nowhere") {
      return redirect("gopher://example.com/?token=" + canary);
    }
    if (without.target == "/moved.wav") {
      return redirect("/good.wav?token=" + canary);
    }
    return shelf(without);
  });
  const ClosedPort closed;
  Stack stack(any_address());
  const std::size_t guarded = 1;
  const Account ann = stack.account(10'000);
  const std::string query = "?X-Amz-Signature=" + canary + "&token=" + canary;
  const auto run = [&](const std::string& member) {
    const Reply done = stack.wait_final(ann, stack.create(ann, body_with(member)).text("id"));
    EXPECT_EQ(done.body.find(canary), std::string::npos) << done.body;
    return done;
  };
  for (const char* path : {"/missing.wav",
                           "/secret",
                           "/broken",
                           "/page.html",
                           "/short.wav",
                           "/big.wav",
                           "/loop/0",
                           "/elsewhere",
                           "/nowhere"}) {
    const Reply done = run(sounds({files.url() + path + query}));
    EXPECT_EQ(done.text("error.code"), "reference_unavailable") << path << done.body;
  }
  for (const std::string& host : {closed.url(), std::string("http://no-such-host.invalid")}) {
    EXPECT_EQ(run(sounds({host + "/a.wav" + query})).text("error.code"), "reference_unavailable");
  }
  EXPECT_EQ(run(sounds({files.url() + "/moved.wav" + query})).text("status"), "succeeded");
  // Refused before anybody is asked for it, by the API and by a worker.
  for (const char* url : {"ftp://example.com/a.wav", "http:///a.wav", "http://us er@x/a.wav"}) {
    const Reply refused = stack.create(ann, body_with(sounds({url + query})));
    EXPECT_EQ(refused.status, 400) << url << refused.body;
    EXPECT_EQ(refused.body.find(canary), std::string::npos) << refused.body;
  }
  stack.worker(0).kill();
  stack.start_worker({{"URL_POLICY", "public"}});
  EXPECT_EQ(run(sounds({files.url() + "/good.wav" + query})).text("error.code"),
            "reference_unavailable");

  EXPECT_THAT(stack.worker(0).log(), HasSubstr("references refused")) << "there was much to tell";
  EXPECT_THAT(stack.worker(guarded).log(), HasSubstr("references refused"));
  for (Process* const program : {&stack.api(), &stack.worker(0), &stack.worker(guarded)}) {
    EXPECT_THAT(program->log(), testing::Not(HasSubstr(canary)));
  }
}

// An address that the world can reach, but not from a machine of an operator who says so. Whoever
// asked for it all the same would say that it did not answer, or what it said.
TEST(References, WhatTheOperatorDeniesIsNotPublic) {
  Stack::Options options;
  options.environment["URL_DENY"] = "8.8.8.0/24";
  Stack stack(options);
  const Account ann = stack.account(1000);
  const Reply done =
      stack.wait_final(ann, stack.create(ann, body_with(sounds({"http://8.8.8.8/a"}))).text("id"));
  EXPECT_EQ(done.text("error.code"), "reference_unavailable") << done.body;
  EXPECT_THAT(stack.worker(0).log(), HasSubstr("the address is not public"));
}

TEST(References, RedirectsAndPassingTroubleAreFollowed) {
  const ProviderDouble files(shelf);
  Stack stack(any_address());
  const Account ann = stack.account(1000);
  for (const char* path : {"/moved.wav", "/flaky.wav"}) {
    const Reply done = stack.wait_final(
        ann, stack.create(ann, body_with(sounds({files.url() + path}))).text("id"));
    EXPECT_EQ(done.text("status"), "succeeded") << path << done.body;
  }
  for (const DoubleCall& call : files.calls()) {
    EXPECT_EQ(call.method, "GET");
    EXPECT_EQ(call.header("authorization"), "") << "nothing of ours goes there";
  }
}

// Median pitch of a delivered WAV file.
double pitch_of(const std::string& url) {
  const std::string wav = http("GET", url).body;
  std::vector<float> samples((wav.size() - 44) / 2);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::int16_t value = 0;
    std::memcpy(&value, wav.data() + 44 + 2 * i, 2);
    samples[i] = static_cast<float>(value) / 32768.0F;
  }
  return sound_traits(samples, 24000).pitch_hz.value_or(0);
}

TEST(References, TheLocalEngineTakesThePitchOfTheFirst) {
  Stack stack(any_address());
  const Account ann = stack.account(10'000);
  const auto make = [&](const std::string& more) {
    const std::string body =
        R"({"model":"svc-audio-1.0","output_format":"wav","prompt":"The quick brown fox jumps over the lazy dog.")" +
        more + "}";
    const Reply done = stack.wait_final(ann, stack.create(ann, body).text("id"));
    EXPECT_EQ(done.text("status"), "succeeded") << done.body;
    return done.text("output.url");
  };
  const std::string deep = make(R"(,"voice":"atlas")");
  const std::string high = make(R"(,"voice":"aria")");
  ASSERT_LT(pitch_of(deep), 0.75 * pitch_of(high));
  const std::string matched = make(R"(,"voice":"aria",)" + sounds({deep}));
  EXPECT_NEAR(pitch_of(matched) / pitch_of(deep), 1.0, 0.1);
  const std::string raised = make(R"(,"voice":"aria","pitch":7,)" + sounds({deep}));
  EXPECT_NEAR(pitch_of(raised) / pitch_of(deep), std::exp2(7.0 / 12.0), 0.15)
      << "what the request asks for comes on top";
}

// Each such claim was used up, so that a disk which was full for two minutes failed the task.
TEST(References, WhatIsOurOwnFaultUsesUpNothing) {
  const ProviderDouble files([](const DoubleCall&) { return file(tone_wav(10.0)); });
  const auto folder = std::filesystem::temp_directory_path() /
                      ("audiogen-references-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  Stack::Options options = any_address();
  options.environment["REFERENCES_FOLDER"] = folder;
  Stack stack(options);
  const Account ann = stack.account(10'000);
  std::filesystem::remove(folder);
  const std::string id = stack.create(ann, body_with(sounds({files.url()}))).text("id");
  ASSERT_TRUE(files.wait_until([&] { return files.call_count() >= 2; }, 60s));
  EXPECT_TRUE(eventually(60s, [&] {
    return stack.database().number(store::Sql("SELECT COUNT(*) FROM tasks WHERE state=1")) == 1;
  }));
  EXPECT_EQ(stack.database().number(store::Sql("SELECT MAX(claims) FROM tasks")), 0);
  std::filesystem::create_directory(folder);
  EXPECT_EQ(stack.wait_final(ann, id, 60s).text("status"), "succeeded");
  EXPECT_EQ(stack.database().number(store::Sql("SELECT MAX(claims) FROM tasks")), 1);
  std::filesystem::remove(folder);
  stack.database().expect_invariants();
}

// Seed Audio answers with JSON and base64; what it received is what counts here. It says that the
// reference is too long, so that the task ends at once: a refusal that names nothing is tried
// again.
TEST(References, ProvidersGetTheAddressOrTheFile) {
  const ProviderDouble files(shelf);
  const ProviderDouble seed([](const DoubleCall&) {
    return DoubleReply{.status = 400, .body = R"({"code":45001117,"message":"too long"})"};
  });
  const auto entry = [&](const char* how) {
    return R"({"name":"seed","kind":"seed_audio","base_url":")" + seed.url() +
           R"(","api_key_env":"PROVIDER_KEY","options":{"references":")" + how + R"("}})";
  };
  ChainFile chain({entry("url")});
  Stack stack(any_address(chain.options()));
  const Account ann = stack.account(10'000);
  const auto sent = [&](const std::string& member) {
    const Reply done = stack.wait_final(ann, stack.create(ann, body_with(member)).text("id"));
    EXPECT_EQ(done.text("error.code"), "unsupported_input") << done.body;
    const std::string body = seed.calls().back().body;
    return body.substr(body.find("\"references\""), 120);
  };
  const std::string sound = files.url() + "/good.wav";
  const std::string image = "\"image_url\":\"" + files.url() + "/pixel.png\"";
  EXPECT_THAT(sent(sounds({sound})), StartsWith(R"("references":[{"audio_url":")" + sound));
  EXPECT_THAT(sent(image), StartsWith(R"("references":[{"image_url":")" + files.url()));
  chain.write({entry("bytes")});
  stack.worker(0).signal(SIGHUP);
  ASSERT_TRUE(eventually(
      60s, [&] { return stack.worker(0).log().find("providers reloaded") != std::string::npos; }));
  EXPECT_THAT(sent(sounds({sound})), StartsWith(R"("references":[{"audio_data":"UklGR)"));
  EXPECT_THAT(sent(image), StartsWith(R"("references":[{"image_data":"iVBORw0KGgo)"));

  // An image that is none never gets there.
  const std::size_t before = seed.call_count();
  for (const char* path : {"/half.png", "/good.wav"}) {
    const Reply done = stack.wait_final(
        ann,
        stack.create(ann, body_with("\"image_url\":\"" + files.url() + path + "\"")).text("id"));
    EXPECT_EQ(done.text("error.code"), "reference_unavailable");
    EXPECT_THAT(done.text("error.message"), HasSubstr("image_url cannot be used: it is "));
  }
  EXPECT_EQ(seed.call_count(), before);
  EXPECT_EQ(credits_of(stack, ann, "available_credits"), 10'000);
  stack.database().expect_invariants();
}

// The largest the process has been so far, or is now ("VmHWM", "VmRSS"), in MB.
std::size_t memory_of(Process& process, const std::string& what) {
  std::ifstream status("/proc/" + std::to_string(process.pid()) + "/status");
  for (std::string name, line; status >> name && std::getline(status, line);) {
    if (name == what + ":") {
      return std::stoul(line) / 1024;
    }
  }
  return 0;
}

// One user's references on servers that dawdle: a worker with little room and one with much go on
// with the tasks of others, plain ones and such with references of their own.
TEST(References, SlowServersKeepNobodyElse) {
  const ProviderDouble slow([](const DoubleCall&) {
    return DoubleReply{.body = std::string(9'900'000, 'x'),
                       .form = Form::kDrip,
                       .drip_every = 2s,
                       .drip_bytes = 65'536};
  });
  const ProviderDouble good(shelf);
  // Over HTTP, and of a size that counts.
  ProviderDouble provider([](const DoubleCall&) {
    auto reply = wav_reply(20.0);
    reply.form = Form::kChunked;
    return reply;
  });
  const ChainFile chain({openai_entry("double", provider), kLocalEntry});
  for (const char* in_flight : {"4", "200"}) {
    Stack::Options options = any_address(chain.options());
    options.environment["WORKER_IN_FLIGHT"] = in_flight;
    options.environment["REFERENCES_SECONDS"] = "600";
    Stack stack(options);
    const Account ann = stack.account(100'000), bob = stack.account(10'000);
    const std::string three = sounds({slow.url(), slow.url(), slow.url()});
    std::vector<std::string> ids;
    for (int i = 0; i < 8; ++i) {
      ids.push_back(stack.create(ann, body_with(three)).text("id"));
    }
    ASSERT_TRUE(slow.wait_until([&] { return slow.open_connections() >= 3; }));
    const Reply plain = stack.wait_final(bob, stack.create(bob, wav_body("plain")).text("id"));
    EXPECT_EQ(plain.text("status"), "succeeded") << plain.body;
    const Reply refers = stack.wait_final(
        bob, stack.create(bob, body_with(sounds({good.url() + "/good.wav"}))).text("id"));
    EXPECT_EQ(refers.text("status"), "succeeded") << refers.body;
    EXPECT_GE(slow.open_connections(), 3U) << "while the others hang";
    for (const std::string& id : ids) {
      EXPECT_NE(stack.get(ann, id).text("status"), "failed");
    }
    stack.database().expect_invariants();
  }
}

// What has fetched its references came back to a place, however many then waited for their
// provider.
TEST(References, WhoWaitsForItsProviderWithThemKeepsNobodyElse) {
  const ProviderDouble files([](const DoubleCall& call) {
    DoubleReply out = shelf(call);
    out.delay = 6s;  // A slot is kept for two: so more of them are under way than it has slots.
    return out;
  });
  const ProviderDouble hanging([](const DoubleCall&) { return DoubleReply{.form = Form::kHang}; });
  ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain(
      {openai_entry("double", provider, "", R"({"atlas":"onyx"})"),
       R"({"name":"seed","kind":"seed_audio","base_url":")" + hanging.url() +
           R"(","api_key_env":"PROVIDER_KEY","timeout_seconds":600,"max_in_flight":2})"});
  Stack::Options options = any_address(chain.options());
  options.environment["WORKER_IN_FLIGHT"] = "4";
  Stack stack(options);
  for (int user = 0; user < 4; ++user) {
    const Account account = stack.account(10'000);
    for (int i = 0; i < 3; ++i) {
      stack.create(account, body_with(sounds({files.url() + "/good.wav"})));
    }
  }
  ASSERT_TRUE(hanging.wait_until([&] { return hanging.call_count() == 2; }));
  // Two are called, and as many as the worker has places have fetched theirs and wait.
  ASSERT_TRUE(eventually(60s, [&] {
    constexpr std::string_view kWaiting = "audiogen_provider_waiting{provider=\"seed\"} ";
    const std::string metrics = http("GET", stack.worker_ops_url(0) + "/metrics").body;
    const auto at = metrics.find(kWaiting);
    return at != std::string::npos && std::stoi(metrics.substr(at + kWaiting.size())) >= 4;
  }));
  const Account bob = stack.account(10'000);
  for (int i = 0; i < 5; ++i) {
    const Reply plain = stack.wait_final(
        bob, stack.create(bob, wav_body("plain", R"(,"voice":"atlas")")).text("id"));
    EXPECT_EQ(plain.text("status"), "succeeded") << plain.body;
  }
  EXPECT_EQ(hanging.call_count(), 2U);
}

// The first three have its two slots, and the place to wait for the next; until they are called, or
// their servers dawdle, nobody else does.
TEST(References, OneOpeningIsNotForAllThatFetch) {
  const ProviderDouble files([](const DoubleCall&) { return DoubleReply{.form = Form::kHang}; });
  const ProviderDouble provider([](const DoubleCall&) { return wav_reply(0.3); });
  const ChainFile chain(
      {R"({"name":"seed","kind":"seed_audio","base_url":")" + provider.url() +
       R"(","api_key_env":"PROVIDER_KEY","timeout_seconds":600,"max_in_flight":2})"});
  Stack stack(any_address(chain.options()));
  std::vector<Account> users;
  for (int i = 0; i < 8; ++i) {
    users.push_back(stack.account(10'000));
  }
  const auto began = std::chrono::steady_clock::now();
  for (const Account& user : users) {
    stack.create(user, body_with(sounds({files.url() + "/good.wav"})));
  }
  ASSERT_TRUE(files.wait_until([&] { return files.call_count() > 3; }));
  EXPECT_GE(std::chrono::steady_clock::now() - began, 2s);
  EXPECT_TRUE(files.wait_until([&] { return files.call_count() >= users.size(); }))
      << "who waits for slow servers keeps nobody waiting";
}

// Bodies without a length: what is received lies in a file, and no more of it than there is room
// for.
TEST(References, ManyLargeBodiesAreNotHeldInMemory) {
  const ProviderDouble files([](const DoubleCall&) {
    return DoubleReply{
        .body = std::string(65'536, 'x'), .form = Form::kStalled, .repeat = 8'000'000 / 65'536};
  });
  Stack::Options options = any_address(Stack::Options());
  options.environment["REFERENCES_SECONDS"] = "6";
  options.environment["REFERENCES_MAX_MB"] = "128";
  // What was freed is not to count: of the sanitizer's 256 MB a newer libcurl fills much.
  options.environment["ASAN_OPTIONS"] = "quarantine_size_mb=8";
  Stack stack(options);
  const std::size_t before = memory_of(stack.worker(0), "VmRSS");
  ASSERT_GT(before, 0U);
  std::vector<std::pair<Account, std::string>> tasks;
  for (int i = 0; i < 4; ++i) {
    const Account account = stack.account(10'000);
    for (int j = 0; j < 4; ++j) {
      tasks.emplace_back(
          account,
          stack.create(account, body_with(sounds({files.url(), files.url(), files.url()})))
              .text("id"));
    }
  }
  for (const auto& [account, id] : tasks) {
    EXPECT_EQ(stack.wait_final(account, id, 90s).text("error.code"), "reference_unavailable");
  }
  EXPECT_LT(memory_of(stack.worker(0), "VmHWM"), before + 120) << "of 384 MB that were sent";
  stack.database().expect_invariants();
}

}  // namespace
}  // namespace audiogen::test
