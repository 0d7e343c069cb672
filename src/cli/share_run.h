// heddle share --run: the jobs of a share, really. heddle-worker does it.
#pragma once

#include <string>

#include "cli/command.h"
#include "share/share_plan.h"

namespace heddle {

struct ShareRunFlags {
  bool run = false;
  bool emulate = false;
  bool shaped = false;  // emulated devices, over links of network namespaces
  bool no_serial = false;
  bool together = false;
  bool one_group = false;  // all jobs at once, whatever the plan thinks of it
  double dilate = 0;
  double silence = 1.5;  // seconds
  std::string order;     // instead of the file's
  std::string dtype;
  std::string directory;
  std::string attach;  // a job of the file joins the share that runs in `directory`
};

void AddShareRunFlags(const Command& command, ShareRunFlags& flags);

// Runs the groups of the plan. Turns this process into the worker, and so returns only an error.
Status RunShare(const ShareInputs& inputs, const SharePlan& plan, const ShareRunFlags& flags,
                const Terminal& terminal);

// Sends the file's jobs, or the one that is named, to a share that runs, and waits for them.
Status AttachToShare(const ShareInputs& inputs, const ShareRunFlags& flags,
                     const Terminal& terminal);

}  // namespace heddle
