// PROVIDERS_FILE: the ordered chain of providers as an operator writes it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/http/client.h"
#include "worker/chain/provider.h"

namespace audiogen::worker {

struct ProvidersErrors {
  std::vector<std::string> lines;  // A log cuts long values.
  bool may_pass = false;           // The file is right: a model cannot be loaded now.
};

// Reads the file (empty name: the local engine alone) and the keys it names from the environment.
// `client` must outlive the providers. Blocks until models of the house are loaded. The errors are
// everything that is wrong.
Result<std::vector<std::unique_ptr<AudioProvider>>, ProvidersErrors> load_providers(
    const std::string& file, http::Client& client);

}  // namespace audiogen::worker
