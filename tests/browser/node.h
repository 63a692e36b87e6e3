// Tests of a page that Node runs: what both sides of them need.
#pragma once

#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/places.h"
#include "tests/support/process.h"

namespace audiogen::test {

// `words` as a JSON list of texts; none has anything in it that JSON would want escaped.
inline std::string json_list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "[\"" : ",\"") + word + "\"";
  }
  return out + "]";
}

// ADMIN of the tests: how they call the operators' command line.
inline std::string admin_words() {
  return json_list({program_path("audio-api"), "admin"});
}

// Runs FOLDER/NAME.test.mjs with `environment`; each of its tests has to pass. Blocks until it is
// over.
inline void expect_passes(const std::string& folder,
                          const std::string& name,
                          const std::map<std::string, std::string>& environment) {
  const Output output = run(
      {"/usr/bin/env", "node", "--test-reporter=spec", "--test", folder + "/" + name + ".test.mjs"},
      environment);
  EXPECT_EQ(output.code, 0) << output.out;
  // What was measured, and how many tests there were.
  std::istringstream lines(output.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\u2139 ") != std::string::npos) {
      std::cout << line << "\n";
    }
  }
}

}  // namespace audiogen::test
