// A user's generations: the list, all there is about one, and deletion.
#pragma once

#include "api/generations/lookout.h"
#include "api/generations/resource.h"
#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/store_doors.h"
#include "common/base/config.h"

namespace audiogen::api {

class History {
 public:
  History(const Config& config, DoorsPool& pool, const Lookout& lookout)
      : names_(wire_names(config)), pool_(pool), lookout_(lookout) {}

  Handling list(Call call);
  Handling details(Call call);
  Handling erase(Call call);

 private:
  const WireNames names_;
  DoorsPool& pool_;
  const Lookout& lookout_;
};

}  // namespace audiogen::api
