// A user's generations, as a list, and their deletion.
#pragma once

#include "api/generations/resource.h"
#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/store_doors.h"
#include "common/base/config.h"

namespace audiogen::api {

class History {
 public:
  History(const Config& config, DoorsPool& pool) : names_(wire_names(config)), pool_(pool) {}

  Handling list(Call call);
  Handling erase(Call call);

 private:
  const WireNames names_;
  DoorsPool& pool_;
};

}  // namespace audiogen::api
