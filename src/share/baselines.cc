#include "share/baselines.h"

#include "share/judgement.h"

namespace heddle {
namespace {

// Seconds per step against each job alone, as the file has it.
ShareBaseline Rated(std::string name, std::vector<Seconds> iteration, const ShareInputs& inputs,
                    const ShareGroup& group) {
  ShareBaseline baseline{std::move(name), std::move(iteration), -1};
  for (size_t k = 0; k < group.jobs.size(); ++k) {
    const Seconds alone = inputs.jobs[group.jobs[k]].times.alone();
    baseline.gain += alone.value / baseline.iteration[k].value;
  }
  return baseline;
}

// Nobody takes turns: what computes or communicates at the same time shares evenly.
Result<std::vector<Seconds>> AllAtOnce(const ShareInputs& inputs, const ShareGroup& group,
                                       bool overlap) {
  std::vector<PlannedJob> planned;
  for (const size_t j : group.jobs) {
    HEDDLE_ASSIGN(PlannedJob job, WithOverlap(inputs.jobs[j], overlap));
    planned.push_back(std::move(job));
  }
  std::vector<JointJob> jobs;
  for (const PlannedJob& job : planned) {
    jobs.push_back({job.spec.name, &job.program, &job.seconds, job.whole_turns});
  }
  JointOptions options;
  options.devices = DeviceSharing::kFair;
  options.network = NetworkSharing::kFair;
  HEDDLE_ASSIGN(JointSimulation simulation, SimulateJoint(jobs, *inputs.cluster, options));
  return std::move(simulation.iteration);
}

}  // namespace

Result<std::vector<ShareBaseline>> BaselinesOf(const ShareInputs& inputs, const ShareGroup& group) {
  std::vector<ShareBaseline> baselines;
  const size_t count = group.jobs.size();
  Seconds in_turn;
  for (const JobTimes& times : TimesOf(inputs, group.jobs)) in_turn += times.alone();
  baselines.push_back(
      Rated("one after the other", std::vector<Seconds>(count, in_turn), inputs, group));
  baselines[0].gain = 0;
  HEDDLE_ASSIGN(std::vector<Seconds> naive, AllAtOnce(inputs, group, false));
  baselines.push_back(Rated("all at once", std::move(naive), inputs, group));
  HEDDLE_ASSIGN(std::vector<Seconds> overlapped, AllAtOnce(inputs, group, true));
  baselines.push_back(
      Rated("all at once, wait-free backward", std::move(overlapped), inputs, group));
  baselines.push_back(Rated("crossover", group.iteration, inputs, group));
  baselines.push_back(Rated("no order is better (T*)",
                            std::vector<Seconds>(count, group.best_period), inputs, group));
  return baselines;
}

}  // namespace heddle
