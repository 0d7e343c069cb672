#include "plan/pipeline/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/order/orders.h"
#include "plan/pipeline/stage_partition.h"

namespace heddle {
namespace {

// Tries the plan as it is and, where it does not fit, with recomputation.
Result<Best::Outcome> TryWithRecompute(Best& best, Plan plan) {
  HEDDLE_ASSIGN(const Best::Outcome outcome, best.Try(plan));
  if (outcome != Best::Outcome::kDoesNotFit) return outcome;
  for (PipelinePlan& pipeline : plan.pipelines) {
    for (StagePlan& stage : pipeline.stages) stage.recompute = true;
  }
  return best.Try(std::move(plan));
}

// ---- data parallelism ---------------------------------------------------------------------------

// Seconds of the whole model for `rows` samples, by device type.
std::vector<double> ModelSeconds(const Planning& planning, int64_t rows) {
  const OpCost cost = planning.cost();
  std::vector<double> seconds;
  for (const DeviceTypeSpec& type : planning.cluster->types()) {
    double sum = 0;
    for (const Op& op : planning.graph.ops()) {
      if (op.phase != Phase::kUpdate) sum += cost.RowsSeconds(op, rows, type).value;
    }
    seconds.push_back(sum);
  }
  return seconds;
}

Result<Plan> PlanReplicas(const Planning& planning, const std::string& strategy,
                          const std::vector<double>& shares) {
  const int devices = planning.cluster->device_count();
  if (planning.options.batch < devices) {
    return Infeasible(strategy,
                      fmt::format("a batch of {} leaves some of {} devices without a sample",
                                  planning.options.batch, devices),
                      fmt::format("give --batch {} or more, or fewer devices", devices));
  }
  Best best(planning);
  std::vector<int> everyone(static_cast<size_t>(devices));
  std::iota(everyone.begin(), everyone.end(), 0);
  // Fewer, larger microbatches are faster; more of them need less memory.
  const int64_t most = planning.options.microbatches.value_or(planning.options.batch / devices);
  for (int64_t m = planning.options.microbatches.value_or(1); m <= most; m *= 2) {
    Plan plan = planning.Blank(strategy, "accumulate");
    plan.microbatches = m;
    plan.all_reduce = CheapestAllReduce(planning, everyone, plan.bucket);
    StagePlan stage;
    stage.chunks = {{0, planning.chain.size() - 1}};
    for (const Device& device : planning.cluster->devices()) stage.devices.push_back(device.name);
    stage.shares = shares;
    stage.order = OneForwardOneBackward(1, static_cast<int>(m))[0];
    plan.pipelines = {{{std::move(stage)}}};
    HEDDLE_ASSIGN(const Best::Outcome outcome, TryWithRecompute(best, std::move(plan)));
    if (outcome == Best::Outcome::kSlower) break;
  }
  return std::move(best).Take();
}

// ---- pipelines ----------------------------------------------------------------------------------

// Powers of two around the number of stages, within the batch, unless the user says.
std::vector<int64_t> MicrobatchCounts(const Planning& planning, int stages) {
  if (planning.options.microbatches) return {*planning.options.microbatches};
  std::vector<int64_t> counts;
  for (int64_t m = 1; m <= std::min<int64_t>(4 * stages, planning.options.batch); m *= 2) {
    if (2 * m >= stages) counts.push_back(m);
  }
  if (counts.empty()) counts.push_back(planning.options.batch);
  return counts;
}

StagePlan OneDeviceStage(const Planning& planning, int device, std::vector<LayerRun> chunks,
                         WorkOrder order) {
  StagePlan stage;
  stage.chunks = std::move(chunks);
  stage.devices = {planning.cluster->devices()[static_cast<size_t>(device)].name};
  stage.shares = {1};
  stage.order = std::move(order);
  return stage;
}

std::vector<int> FirstTypes(const Planning& planning, int devices, int rounds) {
  std::vector<int> types;
  for (int k = 0; k < devices * rounds; ++k) {
    types.push_back(planning.cluster->devices()[static_cast<size_t>(k % devices)].type);
  }
  return types;
}

// A number of microbatches with its stages, and a time no order of them can beat: before a stage's
// work of all microbatches lies the way of the first through the stages before it.
struct Candidate {
  int64_t microbatches;
  std::vector<LayerRun> runs;  // chunk k is on device k modulo the number of devices
  double bound;
};

// Most promising first.
std::vector<Candidate> MakeCandidates(const Planning& planning, const std::vector<int64_t>& counts,
                                      int devices, int rounds) {
  std::vector<Candidate> candidates;
  const std::vector<int> types = FirstTypes(planning, devices, rounds);
  for (const int64_t m : counts) {
    const LayerSeconds seconds(planning, std::max<int64_t>(1, planning.options.batch / m));
    Candidate candidate{m, BalancedRuns(seconds, planning.chain.size(), types), 0};
    std::vector<double> work(static_cast<size_t>(devices), 0);
    std::vector<double> before(static_cast<size_t>(devices), 0);
    double way = 0;
    for (size_t k = 0; k < candidate.runs.size(); ++k) {
      const size_t device = k % static_cast<size_t>(devices);
      if (k < static_cast<size_t>(devices)) before[device] = way;
      const double chunk = seconds.Of(types[k], candidate.runs[k].first, candidate.runs[k].last);
      work[device] += chunk;
      way += chunk;
    }
    for (size_t d = 0; d < work.size(); ++d) {
      candidate.bound = std::max(candidate.bound, before[d] + static_cast<double>(m) * work[d]);
    }
    candidates.push_back(std::move(candidate));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
  return candidates;
}

using OrderMaker = std::vector<WorkOrder> (*)(int stages, int microbatches);

Result<Plan> PlanStages(const Planning& planning, const std::string& strategy, OrderMaker orders) {
  const int stages = std::min(planning.chain.size(), planning.cluster->device_count());
  Best best(planning);
  for (const Candidate& candidate :
       MakeCandidates(planning, MicrobatchCounts(planning, stages), stages, 1)) {
    if (candidate.bound >= best.seconds()) continue;
    Plan plan = planning.Blank(strategy, strategy);
    plan.microbatches = candidate.microbatches;
    plan.pipelines.emplace_back();
    const std::vector<WorkOrder> work = orders(stages, static_cast<int>(candidate.microbatches));
    for (int s = 0; s < stages; ++s) {
      const auto at = static_cast<size_t>(s);
      plan.pipelines[0].stages.push_back(
          OneDeviceStage(planning, s, {candidate.runs[at]}, work[at]));
    }
    HEDDLE_RETURN_IF_ERROR(TryWithRecompute(best, std::move(plan)));
  }
  return std::move(best).Take();
}

}  // namespace

Result<Plan> PlanDataParallel(const Planning& planning) {
  const auto devices = static_cast<size_t>(planning.cluster->device_count());
  return PlanReplicas(planning, "dp", std::vector<double>(devices, 1));
}

Result<Plan> PlanDataParallelProportional(const Planning& planning) {
  const int64_t rows =
      std::max<int64_t>(1, planning.options.batch / planning.cluster->device_count());
  const std::vector<double> seconds = ModelSeconds(planning, rows);
  const double fastest = *std::min_element(seconds.begin(), seconds.end());
  std::vector<double> shares;
  for (const Device& device : planning.cluster->devices()) {
    shares.push_back(fastest / seconds[static_cast<size_t>(device.type)]);
  }
  return PlanReplicas(planning, "dp-proportional", shares);
}

Result<Plan> PlanGpipe(const Planning& planning) {
  return PlanStages(planning, "gpipe", &GpipeOrders);
}

Result<Plan> PlanOneForwardOneBackward(const Planning& planning) {
  return PlanStages(planning, "1f1b", &OneForwardOneBackward);
}

Result<Plan> PlanInterleaved(const Planning& planning) {
  constexpr int kChunks = 2;
  const int layers = planning.chain.size();
  const int stages = std::min(layers / kChunks, planning.cluster->device_count());
  if (stages < 1) {
    return Infeasible("interleaved", "the model has one layer only", "it needs two per device");
  }
  std::vector<int64_t> counts;
  if (planning.options.microbatches) {
    counts.push_back(*planning.options.microbatches);
  } else {
    for (int64_t m = stages; m <= std::min<int64_t>(4 * stages, planning.options.batch); m *= 2) {
      counts.push_back(m);
    }
  }
  if (counts.empty()) {
    return Infeasible("interleaved",
                      fmt::format("a batch of {} has fewer samples than the {} stages",
                                  planning.options.batch, stages),
                      fmt::format("give --batch {} or more", stages));
  }
  Best best(planning);
  std::erase_if(counts, [&](int64_t m) {
    if (m % stages == 0) return false;
    best.Note(fmt::format("{} microbatches are not a multiple of {} stages", m, stages));
    return true;
  });
  for (const Candidate& candidate : MakeCandidates(planning, counts, stages, kChunks)) {
    if (candidate.bound >= best.seconds()) continue;
    Plan plan = planning.Blank("interleaved", "interleaved");
    plan.microbatches = candidate.microbatches;
    plan.pipelines.emplace_back();
    const std::vector<WorkOrder> orders =
        InterleavedOrders(stages, kChunks, static_cast<int>(candidate.microbatches));
    for (int s = 0; s < stages; ++s) {
      const auto at = static_cast<size_t>(s);
      const LayerRun& second = candidate.runs[at + static_cast<size_t>(stages)];
      plan.pipelines[0].stages.push_back(
          OneDeviceStage(planning, s, {candidate.runs[at], second}, orders[at]));
    }
    HEDDLE_RETURN_IF_ERROR(TryWithRecompute(best, std::move(plan)));
  }
  return std::move(best).Take();
}

}  // namespace heddle
