// Going on with a run: everything is as it was, but for what is asked otherwise.
//
//   HEDDLE_ASSIGN(const ResumedRun resumed, ResumeRun(asked, {"rate"}));
//   resumed.changes   ->  "rate 0.001 → 0.0005"
//
// Other data, another seed or type, or another part held out make another run of it: refused unless
// the config asked for says that it may.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "run/run_config.h"

namespace heddle {

struct ResumedRun {
  RunConfig config;                  // complete, of the whole run
  std::string plan;                  // file to read: the run's copy unless another was given
  std::vector<std::string> changes;  // against the run, a line each
};

// `given` are the options, by their names in JSON, that `asked` was explicitly given.
// REQUIRES: asked.resume is not empty.
Result<ResumedRun> ResumeRun(const RunConfig& asked, const std::vector<std::string>& given);

// Where processes of a launcher meet and for how long they wait, before anything else is known: as
// asked, or as in the run that is resumed, if that can be read.
RunConfig MeetingConfig(const RunConfig& asked, const std::vector<std::string>& given);

}  // namespace heddle
