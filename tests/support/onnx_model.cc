#include "tests/support/onnx_model.h"

#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/places.h"

namespace audiogen::test {
namespace {

// Protocol Buffers' wire format.
std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) {
    out += static_cast<char>(value | 128);
  }
  return out += static_cast<char>(value);
}

std::string number(int field, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(static_cast<std::uint64_t>(value));
}

std::string bytes(int field, std::string_view value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(value.size()) +
         std::string(value);
}

// The messages of onnx.proto; numbers of fields and types are those of that file.
constexpr int kFloat = 1, kInt64 = 7, kBool = 9;
using Names = std::vector<std::string>;

std::string value_info(const std::string& name, int type, const Names& shape) {
  std::string dims;
  for (const std::string& dim : shape) {
    const bool fixed = std::isdigit(static_cast<unsigned char>(dim[0])) != 0;
    dims += bytes(1, fixed ? number(1, std::stoi(dim)) : bytes(2, dim));
  }
  return bytes(1, name) + bytes(2, bytes(1, number(1, type) + bytes(2, dims)));
}

std::string integer(const std::string& name, std::int64_t value) {
  return bytes(5, bytes(1, name) + number(3, value) + number(20, 2));
}

std::string subgraph(const std::string& name, const std::string& graph) {
  return bytes(5, bytes(1, name) + bytes(6, graph) + number(20, 5));
}

std::string node(const std::string& operation,
                 const Names& inputs,
                 const Names& outputs,
                 const std::string& attributes = "") {
  std::string out;
  for (const std::string& input : inputs) {
    out += bytes(1, input);
  }
  for (const std::string& output : outputs) {
    out += bytes(2, output);
  }
  return out + bytes(4, operation) + attributes;
}

template <class T>
std::string tensor(const std::string& name,
                   int type,
                   const std::vector<T>& values,
                   const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const std::int64_t dim : shape) {
    out += number(1, dim);
  }
  return out + number(2, type) + bytes(8, name) +
         bytes(9,
               {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])});
}

constexpr std::int64_t kTokens = 64;  // of a model
constexpr std::int64_t kHang = kTokens - 1, kFlood = kTokens - 2, kCrash = kTokens;

struct Input {
  std::string name;
  int type;
  Names shape;
};

struct Shape {
  std::vector<Input> inputs;  // the first are the tokens
  std::string stretched;  // nodes that make "length", samples of a token, and "voice", from 1 on
};

std::string one(const std::string& operation,
                const Names& inputs,
                const std::string& output,
                const std::string& attributes = "") {
  return bytes(1, node(operation, inputs, {output}, attributes));
}

Shape shape_of(TinyModel::Family family) {
  const Input tokens{"x", kInt64, {"1", "L"}}, lengths{"x_length", kInt64, {"1"}},
      speaker{"sid", kInt64, {"1"}};
  const std::string numbered = one("Cast", {"sid"}, "sid_float", integer("to", kFloat)) +
                               one("Add", {"sid_float", "one"}, "voice");
  switch (family) {
    case TinyModel::Family::kVits:
      return {{tokens,
               lengths,
               {"noise_scale", kFloat, {"1"}},
               {"length_scale", kFloat, {"1"}},
               {"noise_scale_w", kFloat, {"1"}},
               speaker},
              one("Mul", {"length_scale", "token_samples"}, "length") + numbered};
    case TinyModel::Family::kPiper:
      return {{tokens, lengths, {"scales", kFloat, {"3"}}, speaker},
              one("Gather", {"scales", "second"}, "length_scale") +
                  one("Mul", {"length_scale", "token_samples"}, "length") + numbered};
    case TinyModel::Family::kKokoro:
    case TinyModel::Family::kKitten:
      break;
  }
  return {{tokens, {"style", kFloat, {"1", "1"}}, {"speed", kFloat, {"1"}}},
          one("Div", {"token_samples", "speed"}, "length") + one("Squeeze", {"style"}, "voice")};
}

std::string graph_of(TinyModel::Family family) {
  const Shape shape = shape_of(family);
  std::vector<float> tones;                   // radians in a sample, by token
  std::vector<std::int64_t> turns, memories;  // how often it turns round, how many floats it takes
  for (std::int64_t token = 0; token < kTokens; ++token) {
    tones.push_back(static_cast<float>((200 + 10.0 * static_cast<double>(token)) * 2 *
                                       std::numbers::pi / TinyModel::kRate));
    turns.push_back(token == kHang ? std::numeric_limits<std::int64_t>::max() : 0);
    memories.push_back(token == kFlood ? std::int64_t{1} << 30 : 1);
  }
  const std::string body =
      one("Identity", {"go_on"}, "still") + one("Identity", {"sum"}, "same") + bytes(2, "body") +
      bytes(11, value_info("turn", kInt64, {})) + bytes(11, value_info("go_on", kBool, {})) +
      bytes(11, value_info("sum", kFloat, {})) + bytes(12, value_info("still", kBool, {})) +
      bytes(12, value_info("same", kFloat, {}));
  std::string out =
      shape.stretched +
      // A tone for each token; for a token out of bounds the runtime throws.
      one("Gather", {"tones", "x"}, "tone") + one("Reshape", {"tone", "a_row_each"}, "row") +
      one("Mul", {"row", "voice"}, "pitched") + one("Squeeze", {"length"}, "end") +
      one("Range", {"zero", "end", "one"}, "time") + one("Mul", {"pitched", "time"}, "phase") +
      one("Sin", {"phase"}, "wave") + one("Mul", {"wave", "level"}, "quiet") +
      one("Reshape", {"quiet", "all"}, "waves") +
      // Nothing, from as much memory and as many turns as the tokens say.
      one("Gather", {"memories", "x"}, "wanted") +
      one("ReduceMax", {"wanted"}, "most", integer("keepdims", 0)) +
      one("Reshape", {"most", "a_list"}, "floats") + one("ConstantOfShape", {"floats"}, "memory") +
      one("ReduceMax", {"memory"}, "nothing", integer("keepdims", 0)) +
      one("Gather", {"turns", "x"}, "all_turns") +
      one("ReduceMax", {"all_turns"}, "trips", integer("keepdims", 0)) +
      one("Loop", {"trips", "true", "nothing"}, "still_nothing", subgraph("body", body)) +
      one("Add", {"waves", "still_nothing"}, "y") + bytes(2, "tiny");
  using Ints = std::vector<std::int64_t>;
  using Floats = std::vector<float>;
  for (const std::string& constant :
       {tensor("tones", kFloat, tones, {kTokens}),
        tensor("turns", kInt64, turns, {kTokens}),
        tensor("memories", kInt64, memories, {kTokens}),
        tensor("a_row_each", kInt64, Ints{1, -1, 1}, {3}),
        tensor("all", kInt64, Ints{1, 1, -1}, {3}),
        tensor("a_list", kInt64, Ints{1}, {1}),
        tensor("second", kInt64, Ints{1}, {1}),
        tensor("zero", kFloat, Floats{0}, {}),
        tensor("one", kFloat, Floats{1}, {}),
        tensor("level", kFloat, Floats{0.05F}, {}),
        tensor("token_samples", kFloat, Floats{TinyModel::kTokenSamples}, {}),
        tensor("true", kBool, std::vector<char>{1}, {})}) {
    out += bytes(5, constant);
  }
  for (const Input& input : shape.inputs) {
    out += bytes(11, value_info(input.name, input.type, input.shape));
  }
  return out + bytes(12, value_info("y", kFloat, {"1", "1", "T"}));
}

std::string model_of(TinyModel::Family family) {
  std::vector<std::pair<std::string, std::string>> properties = {
      {"sample_rate", std::to_string(TinyModel::kRate)},
      {"n_speakers", std::to_string(TinyModel::kSpeakers)},
      {"language", "English"},
      {"voice", "en-us"},
      {"punctuation", ", . ! ?"},
      {"add_blank", "0"},
      {"has_espeak", "1"}};
  switch (family) {
    case TinyModel::Family::kVits:
      properties.emplace_back("comment", "tiny");
      break;
    case TinyModel::Family::kPiper:
      properties.emplace_back("comment", "piper");
      break;
    case TinyModel::Family::kKokoro:
      properties.emplace_back("style_dim", "512,1,1");
      break;
    case TinyModel::Family::kKitten:
      properties.emplace_back("model_type", "kitten-tts");
      properties.emplace_back("style_dim", "1,1");
      break;
  }
  std::string out = number(1, 8) + bytes(7, graph_of(family)) + bytes(8, number(2, 17));
  for (const auto& [name, value] : properties) {
    out += bytes(14, bytes(1, name) + bytes(2, value));
  }
  return out;
}

// Letters, marks and phonemes.
std::string tokens_of(TinyModel::Family family) {
  std::string out;
  std::int64_t next = 0;
  for (const char* token :
       {"_", "^", "$", " ", ",", ".", "!", "?", "a", "b", "c", "d", "e", "f", "h", "i", "k", "l",
        "m", "n", "o", "p", "r", "s", "t", "u", "v", "w", "z", "ɛ", "ə", "ɜ", "ɪ", "ʊ", "ː", "ˈ"}) {
    out += std::string(token) + " " + std::to_string(next++) + "\n";
  }
  if (family == TinyModel::Family::kVits) {
    out += "hang " + std::to_string(kHang) + "\nflood " + std::to_string(kFlood) + "\ncrash " +
           std::to_string(kCrash) + "\n";
  }
  return out;
}

std::string voices_of(TinyModel::Family family) {
  std::string out;
  for (int speaker = 0; speaker < TinyModel::kSpeakers; ++speaker) {
    const float style = static_cast<float>(speaker + 1);
    for (int i = 0; i < (family == TinyModel::Family::kKokoro ? 512 : 1); ++i) {
      out.append(reinterpret_cast<const char*>(&style), sizeof(style));
    }
  }
  return out;
}

// Where Debian has them.
std::filesystem::path espeak_data() {
  for (const char* place :
       {"/usr/lib/x86_64-linux-gnu/espeak-ng-data", "/usr/lib/aarch64-linux-gnu/espeak-ng-data"}) {
    if (std::filesystem::exists(place)) {
      return place;
    }
  }
  throw std::runtime_error("espeak-ng-data is not installed");
}

}  // namespace

TinyModel::TinyModel(Family family) {
  std::string pattern = std::filesystem::temp_directory_path() / "audiogen-model-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("cannot make a folder for the test");
  }
  folder_ = pattern;
  write("model.onnx", model_of(family));
  write("tokens.txt", tokens_of(family));
  if (family == Family::kVits) {
    write("lexicon.txt", "hello h e l\nworld w d\nalpha a\ncrash crash\nhang hang\nflood flood\n");
  } else {
    std::filesystem::create_directory_symlink(espeak_data(), folder_ / "espeak-ng-data");
  }
  if (family == Family::kKokoro || family == Family::kKitten) {
    write("voices.bin", voices_of(family));
  }
}

TinyModel::~TinyModel() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

void TinyModel::write(const std::string& name, const std::string& content) const {
  std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << content;
}

std::string onnx_runtime() {
  return std::filesystem::path(program_path("")).parent_path().parent_path() / "onnx-runtime";
}

}  // namespace audiogen::test
