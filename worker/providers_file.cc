#include "worker/providers_file.h"

#include <fstream>
#include <sstream>

#include "worker/providers/entry.h"

namespace audiogen::worker {
namespace {

constexpr const char* kLocalAlone = R"({"providers": [{"name": "local", "kind": "local"}]})";

}  // namespace

Result<std::vector<std::unique_ptr<AudioProvider>>, ProvidersErrors> load_providers(
    const std::string& file, http::Client& client) {
  std::string text = kLocalAlone;
  if (!file.empty()) {
    std::ifstream in(file);
    std::ostringstream content;
    if (!in || !(content << in.rdbuf())) {
      return ProvidersErrors{.lines = {"cannot read " + file}};
    }
    text = content.str();
  }
  const auto entries = parse_providers(text);
  if (!entries) {
    return ProvidersErrors{.lines = entries.error()};
  }
  std::vector<std::unique_ptr<AudioProvider>> providers;
  std::vector<std::string> errors;
  for (const ProviderEntry& entry : *entries) {
    providers.push_back(make_provider(entry, client));
    if (const auto why = providers.back()->prepare()) {
      errors.push_back("(" + entry.name + ") " + *why);
    }
  }
  if (!errors.empty()) {
    return ProvidersErrors{.lines = std::move(errors), .may_pass = true};
  }
  return providers;
}

}  // namespace audiogen::worker
