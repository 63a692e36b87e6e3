#include "api/admin/operator.h"

#include <cstdlib>

#include <pwd.h>
#include <unistd.h>

namespace audiogen::api {

std::string operating_user() {
  const char* const sudo = std::getenv("SUDO_USER");
  const passwd* const entry = ::getpwuid(::getuid());
  char host[256] = {};
  static_cast<void>(::gethostname(host, sizeof host - 1));
  const std::string user = sudo != nullptr && *sudo != '\0' ? sudo
                           : entry != nullptr               ? entry->pw_name
                                                            : std::to_string(::getuid());
  return user + "@" + host;
}

}  // namespace audiogen::api
