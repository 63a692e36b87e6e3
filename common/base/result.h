// Result<T, E>: the answer of a function whose failure the caller acts on. C++20 has no
// std::expected.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace audiogen {

// A failure told to a person. Types with a machine-readable reason define their own error type.
struct Error {
  std::string message;
};

// Holds either a value or an error. Reading the wrong one is a bug and aborts.
template <class T, class E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  const T& operator*() const& {
    AG_CHECK(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }
  T& operator*() & {
    AG_CHECK(state_.index() == 0);
    return *std::get_if<0>(&state_);
  }
  T&& operator*() && {
    AG_CHECK(state_.index() == 0);
    return std::move(*std::get_if<0>(&state_));
  }
  const T* operator->() const { return &**this; }
  T* operator->() { return &**this; }
  const E& error() const {
    AG_CHECK(state_.index() == 1);
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, E> state_;
};

// The value of functions that only succeed or fail.
struct Done {};

}  // namespace audiogen
