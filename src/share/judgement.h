// Judgement: should these jobs share, at this pace? Internal to share/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "share/share_plan.h"

namespace heddle {

struct Judgement {
  std::optional<std::string> objection;  // why not, in a sentence without its full stop
  std::vector<Seconds> iteration;        // by job of the group
  std::vector<double> slowdown;          //
  double gain = 0;                       //
  Completion alone, together;

  double saved() const { return (alone.makespan - together.makespan).value; }
};

// By the period model: seconds per step of jobs that share, in the file's order of turns.
std::vector<Seconds> ModelPace(const ShareInputs& inputs, const std::vector<size_t>& jobs);

// `pace` gives seconds per step of any of these jobs that are still at work, as indices of inputs.
Result<Judgement> Judge(const ShareInputs& inputs, const std::vector<size_t>& jobs,
                        const PaceOf& pace);

std::vector<JobLength> LengthsOf(const ShareInputs& inputs, const std::vector<size_t>& jobs);

// "a, b and c"
std::string NamesOf(const ShareInputs& inputs, const std::vector<size_t>& jobs);

// Times of the jobs, for the model.
std::vector<JobTimes> TimesOf(const ShareInputs& inputs, const std::vector<size_t>& jobs);
std::vector<double> WeightsOf(const ShareInputs& inputs, const std::vector<size_t>& jobs);

}  // namespace heddle
