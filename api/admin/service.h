// `audio-api admin worker|provider|intake …`: what operators tell the running programs.
#pragma once

#include "api/admin/command.h"

namespace audiogen::api {

// All but the last by act(), as the operations port does it.
Reply worker_drain(Doors& doors, const Options& o);
Reply provider_open(Doors& doors, const Options& o);
Reply provider_close(Doors& doors, const Options& o);
Reply provider_clear(Doors& doors, const Options& o);
Reply intake_pause(Doors& doors, const Options& o);
Reply intake_resume(Doors& doors, const Options& o);
Reply intake_show(Doors& doors, const Options& o);

}  // namespace audiogen::api
