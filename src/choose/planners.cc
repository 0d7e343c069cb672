#include "choose/planners.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "choose/spmd_strategy.h"
#include "plan/async/async_planner.h"
#include "plan/async/local_planner.h"
#include "plan/baseline/earlier_systems.h"
#include "plan/baseline/spmd_baselines.h"
#include "plan/pipeline/baselines.h"
#include "plan/pipeline/spp.h"

namespace heddle {

const std::vector<Planner>& Planners() {
  static const std::vector<Planner> planners = {
      {"pipeline", "pipelines over any topology, replicated where it pays (SPP)", &PlanPipeline},
      {"spmd", "one program for all, tensors divided to fit unequal devices (HAP)",
       &PlanSpmdStrategy},
      {"async", "a pipeline that is never flushed, with weight versions (PipeDream)", &PlanAsync},
      {"local", "replicas that are averaged after some updates of their own (LocalSGD)",
       &PlanLocal},
      {"dp", "data parallelism, equal shares", &PlanDataParallel},
      {"dp-proportional", "data parallelism, shares by speed", &PlanDataParallelProportional},
      {"zero", "data parallelism, weights and optimizer state stored in parts", &PlanZero},
      {"tensor-parallel", "weights divided inside nodes, samples across (Megatron)",
       &PlanTensorParallel},
      {"expert-parallel", "experts divided, everything else by samples", &PlanExpertParallel},
      {"gpipe", "pipeline: all forwards, then all backwards", &PlanGpipe},
      {"1f1b", "pipeline: one forward, one backward", &PlanOneForwardOneBackward},
      {"zb-h1", "pipeline: backward in two parts, one of which fills gaps", &PlanZbH1},
      {"interleaved", "pipeline: two runs of layers per device", &PlanInterleaved},
      {"pipedream", "PipeDream's stages and replicas, with a flush", &PlanPipeDream},
      {"dapple", "DAPPLE's stages, replicas and placement, early backward", &PlanDapple},
      {"hetpipe", "HetPipe's virtual workers: pipelines, data parallel among them", &PlanHetPipe},
  };
  return planners;
}

Result<Plan> MakePlan(std::string_view strategy, const Planning& planning) {
  const auto found = std::find_if(Planners().begin(), Planners().end(),
                                  [&](const Planner& p) { return p.name == strategy; });
  if (found == Planners().end()) {
    std::vector<std::string> names;
    for (const Planner& planner : Planners()) names.push_back(planner.name);
    return Usage(fmt::format("unknown strategy \"{}\"", strategy), SuggestName(strategy, names));
  }
  const auto start = std::chrono::steady_clock::now();
  HEDDLE_ASSIGN(Plan plan, found->plan(planning));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  plan.search.planning_seconds = seconds.count();
  return plan;
}

}  // namespace heddle
