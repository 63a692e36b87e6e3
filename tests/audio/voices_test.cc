// How the preset voices of the local engine sound, by measuring what is delivered.
#include "common/domain/voices.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/hearing.h"
#include "tests/support/narrator.h"

namespace audiogen {
namespace {

class Voices : public testing::Test {
 protected:
  test::Narrator narrator_;
};

TEST_F(Voices, EnglishPresetsAreUnderstood) {
  for (const Voice& voice : voices()) {
    if (voice.language.starts_with("en")) {
      std::vector<std::string> speech;
      for (const std::string_view sentence : test::kPlainEnglish) {
        speech.push_back(narrator_.deliver(test::narration(voice.id, sentence)).bytes);
      }
      EXPECT_LE(test::word_errors(speech), 0.15) << voice.id;
    }
  }
}

}  // namespace
}  // namespace audiogen
