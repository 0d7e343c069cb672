#include "share/share_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "share/grouping.h"
#include "share/judgement.h"
#include "turns/turn_cycle.h"

namespace heddle {
namespace {

class Sharer {
 public:
  explicit Sharer(const ShareInputs& inputs) : inputs_(inputs) {}

  Result<SharePlan> Make() {
    for (const std::vector<size_t>& jobs :
         GroupJobs(inputs_.jobs.size(), [&](const auto& group) { return ModelSaving(group); })) {
      HEDDLE_RETURN_IF_ERROR(AddGroup(jobs));
    }
    for (const size_t j : lonely_) TellOf(j);
    Order();
    Sum();
    return std::move(plan_);
  }

  // Seconds of a step, by job.
  Result<std::vector<Seconds>> SimulatedPace(const std::vector<size_t>& jobs) {
    if (jobs.size() == 1) return std::vector<Seconds>{inputs_.jobs[jobs[0]].times.alone()};
    const auto [known, is_new] = paces_.try_emplace(jobs);
    if (is_new) {
      HEDDLE_ASSIGN(const JointSimulation simulation, SimulateGroup(Arranged(jobs), false));
      known->second = simulation.iteration;
    }
    return known->second;
  }

 private:
  Result<Judgement> ByModel(const std::vector<size_t>& jobs) const {
    return Judge(inputs_, jobs, [&](const std::vector<size_t>& active) {
      return Result<std::vector<Seconds>>(ModelPace(inputs_, active));
    });
  }

  std::optional<double> ModelSaving(const std::vector<size_t>& jobs) {
    const auto [known, is_new] = savings_.try_emplace(jobs);
    if (is_new) {
      const Result<Judgement> judgement = ByModel(jobs);
      HEDDLE_CHECK(judgement.ok());
      if (!judgement.value().objection) known->second = judgement.value().saved();
    }
    return known->second;
  }

  // What the model proposes is simulated, and left if it does not keep its promise.
  Status AddGroup(const std::vector<size_t>& jobs) {
    if (jobs.size() == 1) {
      lonely_.push_back(jobs[0]);
      return AddAlone(jobs[0]);
    }
    HEDDLE_ASSIGN(const Judgement judgement,
                  Judge(inputs_, jobs, [&](const auto& active) { return SimulatedPace(active); }));
    if (judgement.objection) {
      plan_.refusals.push_back({jobs, "simulated: " + *judgement.objection});
      for (const size_t j : jobs) HEDDLE_RETURN_IF_ERROR(AddAlone(j));
      return Ok();
    }
    HEDDLE_ASSIGN(ShareGroup group, MakeGroup(jobs, judgement));
    HEDDLE_ASSIGN(JointSimulation simulation, SimulateGroup(group, /*keep_events=*/true));
    group.period = simulation.cycle;
    group.timeline = std::move(simulation.timeline);
    HEDDLE_RETURN_IF_ERROR(NoteWaiting(group));
    plan_.groups.push_back(std::move(group));
    return Ok();
  }

  // The model's rates know nothing of undivided messages. Says who has much less of them in the
  // simulation because of one: the same with overlap is simulated, and is faster.
  Status NoteWaiting(ShareGroup& group) const {
    constexpr double kMuchLess = 0.8, kFaster = 0.97;
    const bool fair = inputs_.file.share.order == TurnOrder::kDeficit;
    if (!fair || group.devices != DeviceSharing::kTurns) return Ok();
    const std::vector<Seconds> promised = ModelPace(inputs_, group.jobs);
    for (size_t k = 0; k < group.jobs.size(); ++k) {
      const Seconds step = group.iteration[k];
      const double kept = promised[k].value / step.value;
      const PlannedJob* longest = LongestUndivided(group.jobs, group.jobs[k]);
      if (kept >= kMuchLess || longest == nullptr) continue;
      HEDDLE_ASSIGN(const std::vector<Seconds> divided, PaceWithOverlap(group.jobs, *longest));
      if (divided[k].value > kFaster * step.value) continue;
      group.notes.push_back(
          fmt::format("{} has {:.0f}% of the rate that the model promises: it waits behind the "
                      "undivided all-reduce of {}; overlap = true divides it, and a step takes {} "
                      "instead of {}",
                      inputs_.jobs[group.jobs[k]].spec.name, 100 * kept, longest->spec.name,
                      ToText(divided[k]), ToText(step)));
    }
    return Ok();
  }

  Result<std::vector<Seconds>> PaceWithOverlap(const std::vector<size_t>& jobs,
                                               const PlannedJob& whole) const {
    ShareInputs changed = inputs_;
    HEDDLE_ASSIGN(changed.jobs[static_cast<size_t>(&whole - inputs_.jobs.data())],
                  WithOverlap(whole, true));
    return Sharer(changed).SimulatedPace(jobs);
  }

  // The job whose gradients go all at once and take longest, if that is longer than those of `job`.
  const PlannedJob* LongestUndivided(const std::vector<size_t>& jobs, size_t job) const {
    const PlannedJob* longest = nullptr;
    Seconds most = inputs_.jobs[job].times.communicate;
    for (const size_t j : jobs) {
      const PlannedJob& other = inputs_.jobs[j];
      if (other.spec.overlap || other.times.communicate <= most) continue;
      most = other.times.communicate;
      longest = &other;
    }
    return longest;
  }

  Status AddAlone(size_t job) {
    HEDDLE_ASSIGN(const Judgement judgement, ByModel({job}));
    HEDDLE_ASSIGN(ShareGroup group, MakeGroup({job}, judgement));
    group.period = group.best_period;
    group.gain = 0;
    plan_.groups.push_back(std::move(group));
    return Ok();
  }

  std::vector<TurnJob> TurnJobsOf(const std::vector<size_t>& jobs) const {
    std::vector<TurnJob> turn_jobs;
    for (const size_t j : jobs) {
      turn_jobs.push_back({inputs_.jobs[j].times, inputs_.jobs[j].spec.weight});
    }
    return turn_jobs;
  }

  ShareGroup Arranged(const std::vector<size_t>& jobs) const {
    ShareGroup group;
    group.jobs = jobs;
    const ShareOptions& share = inputs_.file.share;
    const bool turns = std::all_of(jobs.begin(), jobs.end(),
                                   [&](size_t j) { return inputs_.jobs[j].whole_turns; });
    group.devices = turns ? DeviceSharing::kTurns : DeviceSharing::kFirstCome;
    group.sequence = TurnCycle(share.order, TurnJobsOf(jobs), share.switch_cost);
    group.best_period = BestPeriod(TimesOf(inputs_, jobs), share.switch_cost);
    return group;
  }

  Result<ShareGroup> MakeGroup(const std::vector<size_t>& jobs, const Judgement& judgement) const {
    ShareGroup group = Arranged(jobs);
    group.iteration = judgement.iteration;
    group.slowdown = judgement.slowdown;
    group.gain = judgement.gain;
    group.memory = GroupMemory(inputs_, jobs);
    group.alone = judgement.alone;
    group.together = judgement.together;
    for (size_t k = 0; k < jobs.size(); ++k) {
      const ShareUse part = UseOf(jobs[k]);
      group.use.device += part.device / group.iteration[k].value;
      group.use.network += part.network / group.iteration[k].value;
    }
    return group;
  }

  // Seconds of one step in which devices (in the mean) and network work for the job.
  ShareUse UseOf(size_t job) const {
    const PlannedJob& planned = inputs_.jobs[job];
    Seconds busy;
    for (const Seconds device : planned.busy) busy += device;
    return {busy.value / static_cast<double>(planned.busy.size()), planned.times.communicate.value};
  }

  Result<JointSimulation> SimulateGroup(const ShareGroup& group, bool keep_events) const {
    std::vector<JointJob> jobs;
    for (const size_t j : group.jobs) {
      const PlannedJob& job = inputs_.jobs[j];
      jobs.push_back({job.spec.name, &job.program, &job.seconds, job.whole_turns});
    }
    JointOptions options;
    options.devices = group.devices;
    options.sequence = group.sequence;
    options.switch_cost = inputs_.file.share.switch_cost;
    options.keep_events = keep_events;
    return SimulateJoint(jobs, *inputs_.cluster, options);
  }

  // Why a job has nobody to share with: what stands against the partner it would gain most with.
  void TellOf(size_t job) {
    std::optional<ShareRefusal> best;
    double gain = 0;
    for (size_t other = 0; other < inputs_.jobs.size(); ++other) {
      if (other == job) continue;
      const std::vector<size_t> pair = {std::min(job, other), std::max(job, other)};
      const Result<Judgement> judgement = ByModel(pair);
      HEDDLE_CHECK(judgement.ok());
      if (best && judgement.value().gain <= gain) continue;
      gain = judgement.value().gain;
      best = ShareRefusal{pair, judgement.value().objection.value_or(
                                    "others gain more when they share among themselves")};
    }
    if (!best) return;
    const bool told =
        std::any_of(plan_.refusals.begin(), plan_.refusals.end(),
                    [&](const ShareRefusal& refusal) { return refusal.jobs == best->jobs; });
    if (!told) plan_.refusals.push_back(*std::move(best));
  }

  // Urgent groups first, of those the shorter in proportion to their weight.
  void Order() {
    const auto urgency = [&](const ShareGroup& group) {
      int64_t most = inputs_.jobs[group.jobs[0]].spec.priority;
      for (const size_t j : group.jobs) most = std::max(most, inputs_.jobs[j].spec.priority);
      return most;
    };
    const auto length = [&](const ShareGroup& group) {
      double weight = 0;
      for (const size_t j : group.jobs) weight += inputs_.jobs[j].spec.weight;
      return group.together.makespan.value / weight;
    };
    std::stable_sort(plan_.groups.begin(), plan_.groups.end(),
                     [&](const ShareGroup& a, const ShareGroup& b) {
                       if (urgency(a) != urgency(b)) return urgency(a) > urgency(b);
                       return length(a) < length(b);
                     });
  }

  void Sum() {
    std::vector<size_t> all(inputs_.jobs.size());
    std::iota(all.begin(), all.end(), 0);
    plan_.alone = OneAfterTheOther(LengthsOf(inputs_, all));
    plan_.shared.done.resize(all.size());
    double weights = 0;
    ShareUse work;
    for (const ShareGroup& group : plan_.groups) {
      for (size_t k = 0; k < group.jobs.size(); ++k) {
        const size_t j = group.jobs[k];
        const PlannedJob& job = inputs_.jobs[j];
        plan_.shared.done[j] = plan_.shared.makespan + group.together.done[k];
        plan_.shared.mean += plan_.shared.done[j] * job.spec.weight;
        weights += job.spec.weight;
        work.device += UseOf(j).device * job.iterations();
        work.network += UseOf(j).network * job.iterations();
      }
      plan_.shared.makespan += group.together.makespan;
    }
    plan_.shared.mean = plan_.shared.mean / weights;
    const auto during = [&](Seconds time) {
      return ShareUse{work.device / time.value, work.network / time.value};
    };
    plan_.use_alone = during(plan_.alone.makespan);
    plan_.use_shared = during(plan_.shared.makespan);
    plan_.predicted_gain = plan_.alone.makespan.value / plan_.shared.makespan.value - 1;
  }

  const ShareInputs& inputs_;
  SharePlan plan_;
  std::vector<size_t> lonely_;
  std::map<std::vector<size_t>, std::optional<double>> savings_;
  std::map<std::vector<size_t>, std::vector<Seconds>> paces_;
};

}  // namespace

Result<ShareInputs> LoadShareInputs(JobsFile file) {
  ShareInputs inputs;
  inputs.file = std::move(file);
  HEDDLE_ASSIGN(Cluster cluster, LoadCluster(inputs.file.cluster));
  inputs.cluster = std::make_shared<const Cluster>(std::move(cluster));
  if (!inputs.file.profile.empty()) {
    HEDDLE_ASSIGN(Profile profile, LoadProfile(inputs.file.profile));
    inputs.profile = std::make_shared<const Profile>(std::move(profile));
  }
  for (const JobSpec& spec : inputs.file.jobs) {
    HEDDLE_ASSIGN(PlannedJob job, PlanJob(spec, *inputs.cluster, inputs.profile.get()));
    inputs.jobs.push_back(std::move(job));
  }
  return inputs;
}

Result<SharePlan> MakeSharePlan(const ShareInputs& inputs) { return Sharer(inputs).Make(); }

Result<std::vector<Seconds>> SimulatedSteps(const ShareInputs& inputs,
                                            const std::vector<size_t>& jobs) {
  return Sharer(inputs).SimulatedPace(jobs);
}

}  // namespace heddle
