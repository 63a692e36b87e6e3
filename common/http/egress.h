// How this process goes out: one setting for all calls over HTTP, whoever makes them.
#pragma once

#include <string>
#include <string_view>

#include "common/base/config.h"

namespace audiogen::http {

struct Egress {
  std::string user_agent{};  // "": none is sent.
  std::string proxy{};       // "http://[user:pass@]host:port"; "": none
  std::string direct{};      // hosts, domains and networks that the proxy is not for
};

// Before the first call of the process: what is under way goes by what was said when it began.
void set_egress(Egress egress);
const Egress& egress();

// As the environment has it.
Egress egress_of(const Outgoing& settings);

// "audiogen/1.0 (+contact)", or without a contact.
std::string user_agent(std::string_view contact);

}  // namespace audiogen::http
