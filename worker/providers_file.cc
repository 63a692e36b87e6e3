#include "worker/providers_file.h"

#include <fstream>
#include <sstream>

#include "worker/providers/entry.h"

namespace audiogen::worker {
namespace {

constexpr const char* kLocalAlone = R"({"providers": [{"name": "local", "kind": "local"}]})";

}  // namespace

Result<std::vector<std::unique_ptr<AudioProvider>>, std::vector<std::string>> load_providers(
    const std::string& file, http::Client& client) {
  std::string text = kLocalAlone;
  if (!file.empty()) {
    std::ifstream in(file);
    std::ostringstream content;
    if (!in || !(content << in.rdbuf())) {
      return std::vector<std::string>{"cannot read " + file};
    }
    text = content.str();
  }
  const auto entries = parse_providers(text);
  if (!entries) {
    return entries.error();
  }
  std::vector<std::unique_ptr<AudioProvider>> providers;
  for (const ProviderEntry& entry : *entries) {
    providers.push_back(make_provider(entry, client));
  }
  return providers;
}

}  // namespace audiogen::worker
