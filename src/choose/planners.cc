#include "choose/planners.h"

#include <fmt/format.h>

#include <chrono>
#include <map>

#include "base/text.h"
#include "choose/pipeline_strategy.h"
#include "choose/spmd_strategy.h"
#include "plan/async/async_planner.h"
#include "plan/async/local_planner.h"
#include "plan/baseline/earlier_systems.h"
#include "plan/baseline/spmd_baselines.h"
#include "plan/pipeline/baselines.h"

namespace heddle {

const std::vector<Planner>& Planners() {
  static const std::vector<Planner> planners = {
      {"pipeline", "pipelines over any topology, replicated where it pays (SPP)",
       &PlanPipelineStrategy, PlannerPace::kLong},
      {"spmd", "one program for all, tensors divided to fit unequal devices (HAP)",
       &PlanSpmdStrategy, PlannerPace::kLong},
      {"async", "a pipeline that is never flushed, with weight versions (PipeDream)", &PlanAsync,
       PlannerPace::kSteady},
      {"local", "replicas that are averaged after some updates of their own (LocalSGD)", &PlanLocal,
       PlannerPace::kSteady},
      {"dp", "data parallelism, equal shares", &PlanDataParallel},
      {"dp-proportional", "data parallelism, shares by speed", &PlanDataParallelProportional},
      {"zero", "data parallelism, weights and optimizer state stored in parts", &PlanZero,
       PlannerPace::kSteady},
      {"tensor-parallel", "weights divided inside nodes, samples across (Megatron)",
       &PlanTensorParallel, PlannerPace::kSteady},
      {"expert-parallel", "experts divided, everything else by samples", &PlanExpertParallel,
       PlannerPace::kSteady},
      {"gpipe", "pipeline: all forwards, then all backwards", &PlanGpipe},
      {"1f1b", "pipeline: one forward, one backward", &PlanOneForwardOneBackward},
      {"zb-h1", "pipeline: backward in two parts, one of which fills gaps", &PlanZbH1,
       PlannerPace::kSteady},
      {"interleaved", "pipeline: two runs of layers per device", &PlanInterleaved},
      {"pipedream", "PipeDream's stages and replicas, with a flush", &PlanPipeDream,
       PlannerPace::kSteady},
      {"dapple", "DAPPLE's stages, replicas and placement, early backward", &PlanDapple,
       PlannerPace::kLong},
      {"hetpipe", "HetPipe's virtual workers: pipelines, data parallel among them", &PlanHetPipe,
       PlannerPace::kSteady},
  };
  return planners;
}

Result<const Planner*> FindPlanner(std::string_view name) {
  static const std::map<std::string_view, std::string_view> also = {
      {"ddp", "dp"}, {"fsdp", "zero"}, {"tp", "tensor-parallel"}};
  const auto meant = also.find(name);
  const std::string_view wanted = meant == also.end() ? name : meant->second;
  std::vector<std::string> names;
  for (const Planner& planner : Planners()) {
    if (planner.name == wanted) return &planner;
    names.push_back(planner.name);
  }
  return Usage(fmt::format("unknown strategy \"{}\"", name), SuggestName(name, names));
}

Result<Plan> MakePlan(const Planner& planner, const Planning& planning) {
  const auto start = std::chrono::steady_clock::now();
  HEDDLE_ASSIGN(Plan plan, planner.plan(planning));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  plan.search.planning_seconds = seconds.count();
  plan.request = planning.request;  // as asked, whatever the search asked of itself
  return plan;
}

Result<Plan> MakePlan(std::string_view strategy, const Planning& planning) {
  HEDDLE_ASSIGN(const Planner* planner, FindPlanner(strategy));
  return MakePlan(*planner, planning);
}

}  // namespace heddle
