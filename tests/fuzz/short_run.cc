// Runs a fuzz target without libFuzzer: <seed folder> <number of mutations>. The same arguments
// give the same inputs, so a failure can be repeated.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kInputMax = 16 * 1024;

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

// One to four small changes, some of them with a piece of another seed.
std::string mutate(std::string input, const std::string& other, std::mt19937& random) {
  const auto below = [&](std::size_t bound) { return bound == 0 ? 0 : random() % bound; };
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const std::size_t at = below(input.size() + 1);
    switch (below(7)) {
      case 0:
        input.insert(at, 1, static_cast<char>(below(256)));
        break;
      case 1:
        input.erase(at, 1 + below(8));
        break;
      case 2:
        if (at < input.size()) {
          input[at] = static_cast<char>(below(256));
        }
        break;
      case 3:
        if (at < input.size()) {
          input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        }
        break;
      case 4:
        input.insert(at, input.substr(below(input.size() + 1), below(40)));
        break;
      case 5:
        input.insert(at, other.substr(below(other.size() + 1), below(40)));
        break;
      default:
        input = input.substr(0, at) + other.substr(below(other.size() + 1));
        break;
    }
  }
  input.resize(std::min(input.size(), kInputMax));
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s <seed folder> <number of mutations>\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    run(seeds.back());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "no seeds in %s\n", argv[1]);
    return 2;
  }
  run("");
  std::mt19937 random(20240229);
  const long runs = std::strtol(argv[2], nullptr, 10);
  for (long i = 0; i < runs; ++i) {
    std::string& seed = seeds[random() % seeds.size()];
    const std::string input = mutate(seed, seeds[random() % seeds.size()], random);
    run(input);
    // Without coverage to go by, some mutants become seeds of the next ones.
    if (random() % 50 == 0 && seeds.size() < 1000) {
      seeds.push_back(input);
    }
  }
  std::printf("%ld mutations of %zu seeds\n", runs, files.size());
  return 0;
}
