// The smallest models that sherpa-onnx takes, made here: of each token they make a tone of a tenth
// of a second.
#pragma once

#include <filesystem>
#include <string>

namespace audiogen::test {

// A folder with a model, as long as it lives.
class TinyModel {
 public:
  enum class Family { kVits, kPiper, kKokoro, kKitten };

  static constexpr int kRate = 16000;         // Hz
  static constexpr int kTokenSamples = 1600;  // at normal speed
  static constexpr int kSpeakers = 3;         // the next speaks an octave, and so on, higher
  // Of kVits, the words it knows, and their tokens: "hello" has three, "world" two, "alpha" one;
  // one more stands between words. "crash" has a token that ends the runtime, over "hang" it comes
  // to no end, for "flood" it wants 4 GiB. All others have espeak-ng say what they hear.
  explicit TinyModel(Family family = Family::kVits);
  ~TinyModel();
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  void write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path folder_;
};

// The folder of the runtime, which the fixture `onnx_runtime` installs.
std::string onnx_runtime();

}  // namespace audiogen::test
