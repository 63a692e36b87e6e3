// What the tests with a provider chain share: the file that names it, entries for doubles.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <rapidjson/document.h>

#include "tests/support/provider_double.h"
#include "tests/support/stack.h"

namespace audiogen::test {

inline constexpr const char* kProviderKey = "sk-canary-of-the-provider";

// PROVIDERS_FILE in a temporary place.
class ChainFile {
 public:
  explicit ChainFile(const std::vector<std::string>& entries) {
    std::string pattern = std::filesystem::temp_directory_path() / "audiogen-chain-XXXXXX";
    const int fd = ::mkstemp(pattern.data());
    if (fd < 0 || ::close(fd) != 0) {
      throw std::runtime_error("cannot make a file for the test");
    }
    path_ = pattern;
    write(entries);
  }
  ~ChainFile() { std::remove(path_.c_str()); }
  ChainFile(const ChainFile&) = delete;
  ChainFile& operator=(const ChainFile&) = delete;

  void write(const std::vector<std::string>& entries) const {
    std::string list;
    for (const std::string& entry : entries) {
      list += (list.empty() ? "" : ",") + entry;
    }
    write_text(R"({"providers":[)" + list + "]}");
  }
  void write_text(const std::string& text) const { std::ofstream(path_, std::ios::trunc) << text; }

  // For a stack that uses this chain; rate limits out of the way.
  Stack::Options options() const {
    Stack::Options out;
    out.environment = {{"PROVIDERS_FILE", path_},
                       {"PROVIDER_KEY", kProviderKey},
                       {"RATE_LIMIT_CREATE_BURST", "100000"},
                       {"RATE_LIMIT_CREATE_PER_MINUTE", "1000000"}};
    return out;
  }

 private:
  std::string path_;
};

// An entry of kind openai. `more`: further members, each with a comma in front; the voices unless
// they name their own.
inline std::string openai_entry(std::string_view name,
                                const ProviderDouble& server,
                                std::string_view more = "",
                                std::string_view voices = R"({"aria":"coral","atlas":"onyx"})") {
  return R"({"name":")" + std::string(name) + R"(","kind":"openai","base_url":")" + server.url() +
         R"(/v1","api_key_env":"PROVIDER_KEY","model":"m","voices":)" + std::string(voices) +
         std::string(more) + "}";
}

inline const char* const kLocalEntry = R"({"name":"local","kind":"local"})";

// A member of the JSON body a double received, "" without it.
inline std::string member_of(const DoubleCall& call, const char* name) {
  rapidjson::Document body;
  body.Parse(call.body.c_str());
  return body.IsObject() && body.HasMember(name) && body[name].IsString() ? body[name].GetString()
                                                                          : "";
}

inline DoubleReply wav_reply(double seconds) {
  return {.headers = {"Content-Type: audio/wav"}, .body = tone_wav(seconds)};
}

// A body that asks for wav, whose length anybody can count.
inline std::string wav_body(std::string_view prompt, std::string_view more = "") {
  return R"({"model":"svc-audio-1.0","output_format":"wav","prompt":")" + std::string(prompt) +
         "\"" + std::string(more) + "}";
}

// One line for each provider call of a task: "name state".
inline std::vector<std::string> calls_of(Stack& stack, const std::string& id) {
  store::Sql sql(
      "SELECT COALESCE(GROUP_CONCAT(CONCAT(provider,' ',ELT(state,'started','succeeded','failed',"
      "'unknown outcome')) ORDER BY n SEPARATOR '\n'),'') FROM attempts WHERE task_id=");
  sql << TaskId::parse(id).value();
  std::istringstream lines(stack.database().text(sql));
  std::vector<std::string> out;
  for (std::string line; std::getline(lines, line);) {
    out.push_back(line);
  }
  return out;
}

inline double credits_of(Stack& stack, const Account& account, const char* name) {
  return stack.admin({"user", "show", "--user", account.user})[name].GetDouble();
}

// What an operator sees of a provider: ready, open, half_open, or "" when nobody reported it yet.
inline std::string provider_state(Stack& stack, std::string_view name) {
  const auto queue = stack.admin({"queue"});
  for (const auto& provider : queue["providers"].GetArray()) {
    if (provider["name"].GetString() == name) {
      return provider["state"].GetString();
    }
  }
  return "";
}

}  // namespace audiogen::test
