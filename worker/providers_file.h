// PROVIDERS_FILE: the ordered chain of providers as an operator writes it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/http/client.h"
#include "worker/chain/provider.h"

namespace audiogen::worker {

// Reads the file (empty name: the local engine alone) and the keys it names from the environment.
// `client` must outlive the providers. Blocks until models of the house are loaded. The errors are
// everything that is wrong, a line each: a log cuts long values.
Result<std::vector<std::unique_ptr<AudioProvider>>, std::vector<std::string>> load_providers(
    const std::string& file, http::Client& client);

}  // namespace audiogen::worker
