#include "tests/support/ffmpeg.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <unistd.h>

namespace audiogen::test {
namespace {

std::string tone(double seconds) {
  return "ffmpeg -v error -y -f lavfi -i sine=frequency=440:sample_rate=24000:duration=" +
         std::to_string(seconds) + " ";
}

std::string file_of(const std::string& command) {
  std::string name = (std::filesystem::temp_directory_path() / "media_XXXXXX").string();
  const int file = mkstemp(name.data());
  EXPECT_GE(file, 0);
  close(file);
  output_of(command + " " + name);
  std::ifstream stream(name, std::ios::binary);
  std::string out{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  std::filesystem::remove(name);
  EXPECT_FALSE(out.empty()) << command;
  return out;
}

}  // namespace

std::string output_of(const std::string& command) {
  std::string out;
  FILE* const pipe = popen((command + " </dev/null").c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::array<char, 65536> buffer{};
  while (const std::size_t size = fread(buffer.data(), 1, buffer.size(), pipe)) {
    out.append(buffer.data(), size);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  return out;
}

std::string tone_file(double seconds, const std::string& options) {
  return file_of(tone(seconds) + options);
}

std::string tone_stream(double seconds, const std::string& options) {
  return output_of(tone(seconds) + options + " pipe:1");
}

std::string picture_file(const std::string& size, const std::string& options) {
  return file_of("ffmpeg -v error -y -f lavfi -i testsrc=size=" + size +
                 ":rate=1:duration=1 -frames:v 1 -update 1 " + options);
}

}  // namespace audiogen::test
