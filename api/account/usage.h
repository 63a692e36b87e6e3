// What the owner of a key has used: by hour or day, by key or voice; as JSON, or as CSV for those
// who prefer it.
#pragma once

#include "api/server/call.h"
#include "api/server/handling.h"
#include "api/server/store_doors.h"

namespace audiogen::api {

class Usage {
 public:
  // `pool` is to live as long as this.
  explicit Usage(DoorsPool& pool) : pool_(pool) {}

  Handling read(Call call);

 private:
  DoorsPool& pool_;
};

}  // namespace audiogen::api
