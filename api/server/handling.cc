#include "api/server/handling.h"

#include <exception>
#include <typeinfo>

#include "common/base/log.h"
#include "common/base/occasionally.h"

namespace audiogen::api {

void Handling::promise_type::unhandled_exception() const noexcept {
  static Occasionally line;
  if (!line.due()) {
    return;
  }
  try {
    try {
      throw;
    } catch (const std::exception& e) {
      log::error("a handler threw", {{"exception", typeid(e).name()}});
    }
  } catch (...) {
    // Nothing that could be told.
  }
}

}  // namespace audiogen::api
