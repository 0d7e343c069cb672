// Devices as threads of this process.
//
//   RunOnThreads(program, [&](int32_t device, Communicator& communicator) -> Status { … });
#pragma once

#include <functional>

#include "base/result.h"
#include "program/program.h"
#include "run/communicator.h"
#include "timeline/timeline.h"

namespace heddle {

// Runs `work` for every device, each on a thread, with a communicator among them. The error of the
// device that failed first, if one did; the others then give up.
Status RunOnThreads(const Program& program,
                    const std::function<Status(int32_t device, Communicator&)>& work);

// Lanes and labels as the simulator numbers them, no events yet.
Timeline EmptyTimeline(const Program& program);
void SortByStart(Timeline& timeline);

}  // namespace heddle
