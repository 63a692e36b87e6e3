#include "worker/providers_file.h"

#include <fstream>
#include <sstream>

#include "worker/providers/entry.h"

namespace audiogen::worker {
namespace {

constexpr const char* kLocalAlone = R"({"providers": [{"name": "local", "kind": "local"}]})";

}  // namespace

Result<std::vector<std::unique_ptr<AudioProvider>>> load_providers(const std::string& file,
                                                                   http::Client& client) {
  std::string text = kLocalAlone;
  if (!file.empty()) {
    std::ifstream in(file);
    std::ostringstream content;
    if (!in || !(content << in.rdbuf())) {
      return Error{"PROVIDERS_FILE: cannot read " + file};
    }
    text = content.str();
  }
  const auto entries = parse_providers(text);
  if (!entries) {
    std::string message = "PROVIDERS_FILE:";
    for (const std::string& error : entries.error()) {
      message += " " + error + ";";
    }
    message.pop_back();
    return Error{message};
  }
  std::vector<std::unique_ptr<AudioProvider>> providers;
  for (const ProviderEntry& entry : *entries) {
    providers.push_back(make_provider(entry, client));
  }
  return providers;
}

}  // namespace audiogen::worker
