#include "share/judgement.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {
namespace {

// A sum of times in another order must not decide.
constexpr double kAlmost = 1e-9;

using Objection = std::optional<std::string>;

Objection ObjectToMemory(const ShareInputs& inputs, const std::vector<size_t>& jobs,
                         const Judgement&) {
  const std::vector<Bytes> needed = GroupMemory(inputs, jobs);
  for (size_t d = 0; d < needed.size(); ++d) {
    const DeviceId id{static_cast<int32_t>(d)};
    const Bytes has = inputs.cluster->type_of(id).memory;
    if (needed[d] <= has) continue;
    return fmt::format("together they need {} on device {}, which has {}: {} ({} bytes) too much",
                       ToText(needed[d]), inputs.cluster->device(id).name, ToText(has),
                       ToText(needed[d] - has), (needed[d] - has).value);
  }
  return std::nullopt;
}

Objection ObjectToGain(const ShareInputs& inputs, const std::vector<size_t>&,
                       const Judgement& judgement) {
  const double least = inputs.file.share.minimum_gain;
  if (judgement.gain >= least - kAlmost) return std::nullopt;
  return fmt::format("gain {:.1f}%, less than the {:.1f}% that sharing must win",
                     100 * judgement.gain, 100 * least);
}

Objection ObjectToSlowdown(const ShareInputs& inputs, const std::vector<size_t>& jobs,
                           const Judgement& judgement) {
  for (size_t k = 0; k < jobs.size(); ++k) {
    const JobSpec& spec = inputs.jobs[jobs[k]].spec;
    const double slowdown = judgement.slowdown[k];
    const double most = spec.tolerated_slowdown.value_or(inputs.file.share.most_slowdown);
    if (slowdown <= most + kAlmost) continue;
    return fmt::format("a step of {} would take {:.2f} times as long as alone; {} {:.2f}",
                       spec.name, slowdown,
                       spec.tolerated_slowdown ? "it tolerates" : "most_slowdown is", most);
  }
  return std::nullopt;
}

// The more urgent is not held up by the less urgent, unless it said by how much it may be.
Objection ObjectToPriority(const ShareInputs& inputs, const std::vector<size_t>& jobs,
                           const Judgement& judgement) {
  int64_t least = inputs.jobs[jobs[0]].spec.priority;
  for (const size_t j : jobs) least = std::min(least, inputs.jobs[j].spec.priority);
  for (size_t k = 0; k < jobs.size(); ++k) {
    const JobSpec& spec = inputs.jobs[jobs[k]].spec;
    if (spec.priority == least || spec.tolerated_slowdown) continue;
    if (judgement.slowdown[k] <= 1 + kAlmost) continue;
    return fmt::format(
        "{} has priority and would be slowed {:.2f} times; it states no tolerated_slowdown",
        spec.name, judgement.slowdown[k]);
  }
  return std::nullopt;
}

Objection ObjectToMean(const ShareInputs&, const std::vector<size_t>&, const Judgement& judgement) {
  const Seconds alone = judgement.alone.mean;
  const Seconds together = judgement.together.mean;
  if (together.value <= alone.value * (1 + kAlmost)) return std::nullopt;
  return fmt::format(
      "makespan {} instead of {}, but mean completion time {} instead of {}: whoever is first "
      "waits for the others",
      ToText(judgement.together.makespan), ToText(judgement.alone.makespan), ToText(together),
      ToText(alone));
}

// In the order in which they are told.
constexpr Objection (*kObjections[])(const ShareInputs&, const std::vector<size_t>&,
                                     const Judgement&) = {
    &ObjectToMemory, &ObjectToGain, &ObjectToSlowdown, &ObjectToPriority, &ObjectToMean};

}  // namespace

std::vector<Bytes> GroupMemory(const ShareInputs& inputs, const std::vector<size_t>& jobs) {
  std::vector<Bytes> needed(static_cast<size_t>(inputs.cluster->device_count()));
  for (size_t d = 0; d < needed.size(); ++d) {
    Bytes passing;  // of those that hold the token, one at a time
    for (const size_t j : jobs) {
      const JobMemory& memory = inputs.jobs[j].memory[d];
      needed[d] += memory.kept;
      if (inputs.jobs[j].whole_turns) {
        passing = std::max(passing, memory.passing);
      } else {
        needed[d] += memory.passing;
      }
    }
    needed[d] += passing;
  }
  return needed;
}

std::vector<JobTimes> TimesOf(const ShareInputs& inputs, const std::vector<size_t>& jobs) {
  std::vector<JobTimes> times;
  for (const size_t j : jobs) times.push_back(inputs.jobs[j].times);
  return times;
}

std::vector<double> WeightsOf(const ShareInputs& inputs, const std::vector<size_t>& jobs) {
  std::vector<double> weights;
  for (const size_t j : jobs) weights.push_back(inputs.jobs[j].spec.weight);
  return weights;
}

std::vector<JobLength> LengthsOf(const ShareInputs& inputs, const std::vector<size_t>& jobs) {
  std::vector<JobLength> lengths;
  for (const size_t j : jobs) {
    const PlannedJob& job = inputs.jobs[j];
    lengths.push_back({job.iterations(), job.times.alone(), job.spec.weight, job.spec.priority});
  }
  return lengths;
}

std::string NamesOf(const ShareInputs& inputs, const std::vector<size_t>& jobs) {
  std::string names;
  for (size_t k = 0; k < jobs.size(); ++k) {
    if (k > 0) names += k + 1 == jobs.size() ? " and " : ", ";
    names += inputs.jobs[jobs[k]].spec.name;
  }
  return names;
}

std::vector<Seconds> ModelPace(const ShareInputs& inputs, const std::vector<size_t>& jobs) {
  const std::vector<JobTimes> times = TimesOf(inputs, jobs);
  const ShareOptions& share = inputs.file.share;
  const bool turns =
      std::all_of(jobs.begin(), jobs.end(), [&](size_t j) { return inputs.jobs[j].whole_turns; });
  if (turns && share.order == TurnOrder::kRotation) {
    return std::vector<Seconds>(jobs.size(), BestPeriod(times, share.switch_cost));
  }
  std::vector<Seconds> pace;
  for (const double rate : FairJobRates(times, WeightsOf(inputs, jobs), share.switch_cost)) {
    pace.push_back(Seconds{1 / rate});
  }
  return pace;
}

Result<Judgement> Judge(const ShareInputs& inputs, const std::vector<size_t>& jobs,
                        const PaceOf& pace) {
  Judgement judgement;
  HEDDLE_ASSIGN(judgement.iteration, pace(jobs));
  judgement.gain = -1;
  for (size_t k = 0; k < jobs.size(); ++k) {
    const Seconds alone = inputs.jobs[jobs[k]].times.alone();
    judgement.slowdown.push_back(judgement.iteration[k].value / alone.value);
    judgement.gain += 1 / judgement.slowdown.back();
  }
  const std::vector<JobLength> lengths = LengthsOf(inputs, jobs);
  judgement.alone = OneAfterTheOther(lengths);
  HEDDLE_ASSIGN(judgement.together, Together(lengths, [&](const std::vector<size_t>& active) {
                  std::vector<size_t> still;
                  for (const size_t place : active) still.push_back(jobs[place]);
                  return pace(still);
                }));
  for (const auto object : kObjections) {
    judgement.objection = object(inputs, jobs, judgement);
    if (judgement.objection) break;
  }
  return judgement;
}

}  // namespace heddle
