#include "spp/cell.h"

#include <fmt/format.h>

#include "base/json_field.h"
#include "choose/planners.h"
#include "program/lower/lower.h"
#include "spp/simgrid_run.h"

namespace heddle {
namespace {

std::string Short(const Plan& plan) {
  if (plan.pipelines.empty()) return plan.order_name;
  std::string text;
  for (const StagePlan& stage : plan.pipelines[0].stages) {
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", stage.devices.size(),
                        stage.recompute ? "r" : "");
  }
  if (plan.pipelines.size() > 1) text = fmt::format("{} x ({})", plan.pipelines.size(), text);
  return text + ", " + plan.order_name;
}

// 0 where SimGrid is not built in.
Result<double> BySimGrid(const Planning& planning, const Plan& plan) {
  HEDDLE_ASSIGN(const Program program, LowerPlan(plan, planning.graph));
  const OpCost cost = planning.cost();
  HEDDLE_ASSIGN(const SegmentSeconds seconds, CostSegments(program, *planning.cluster, &cost));
  if constexpr (kHasSimGrid) return SimGridSeconds(program, *planning.cluster, seconds);
  return 0;
}

}  // namespace

const std::vector<std::string>& Baselines() {
  static const std::vector<std::string> kNames = {"dp",     "dp-proportional", "zero",  "gpipe",
                                                  "1f1b",   "interleaved",     "zb-h1", "pipedream",
                                                  "dapple", "hetpipe"};
  return kNames;
}

Result<SppCell> RunCase(const SppCase& one, bool simgrid) {
  HEDDLE_ASSIGN(const Cluster cluster,
                ParseClusterToml(ClusterText(one.topology, one.devices), one.topology));
  PlanRequest options;
  options.model = one.model.spec;
  options.batch = one.microbatches * one.model.rows;
  options.microbatches = one.microbatches;
  if (one.model.profile_batch > 0) {
    options.profile_batch = one.model.profile_batch;
    options.profile_device = "v100";
  }
  HEDDLE_ASSIGN(const Planning planning, Planning::Make(options, cluster, nullptr));
  SppCell cell;
  cell.name = one.Name();
  cell.devices = one.devices;
  cell.microbatches = one.microbatches;
  std::vector<std::string> planners = Baselines();
  planners.emplace_back(kOurs);
  for (const std::string& name : planners) {
    const Result<Plan> made = MakePlan(name, planning);
    if (!made.ok()) {
      if (made.error().kind != ErrorKind::kInfeasible) return made.error();
      continue;
    }
    const Plan& plan = made.value();
    SppResult& result = cell.results[name];
    result = {plan.estimate.iteration_seconds, 0, plan.search.planning_seconds, Short(plan)};
    if (simgrid) {
      HEDDLE_ASSIGN(result.simgrid, BySimGrid(planning, plan));
    }
    if (name != kOurs) continue;
    cell.bound = plan.estimate.lower_bound_seconds;
    cell.order_bound = plan.estimate.schedule_bound_seconds;
  }
  return cell;
}

Json CellToJson(const SppCell& cell) {
  Json json = {{"name", cell.name},
               {"devices", cell.devices},
               {"microbatches", cell.microbatches},
               {"bound", cell.bound},
               {"order_bound", cell.order_bound}};
  for (const auto& [name, result] : cell.results) {
    json["results"][name] = {{"seconds", result.seconds},
                             {"simgrid", result.simgrid},
                             {"planning", result.planning},
                             {"plan", result.plan}};
  }
  return json;
}

Result<SppCell> CellFromJson(const JsonField& json) {
  SppCell cell;
  HEDDLE_ASSIGN(cell.name, json.String("name"));
  HEDDLE_ASSIGN(const int64_t devices, json.Int("devices", 1, 1 << 20));
  cell.devices = static_cast<int>(devices);
  HEDDLE_ASSIGN(cell.microbatches, json.Int("microbatches", 1, 1 << 20));
  HEDDLE_ASSIGN(cell.bound, json.Number("bound"));
  HEDDLE_ASSIGN(cell.order_bound, json.Number("order_bound"));
  HEDDLE_ASSIGN(const JsonField results, json.Object("results"));
  for (const auto& [name, value] : results.json().items()) {
    HEDDLE_ASSIGN(const JsonField field, results.Object(name));
    SppResult& result = cell.results[name];
    HEDDLE_ASSIGN(result.seconds, field.Number("seconds"));
    HEDDLE_ASSIGN(result.simgrid, field.Number("simgrid"));
    HEDDLE_ASSIGN(result.planning, field.Number("planning"));
    HEDDLE_ASSIGN(result.plan, field.String("plan"));
  }
  return cell;
}

}  // namespace heddle
