#include "choose/monkey_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "plan/order/orders.h"

namespace heddle {
namespace {

bool CutShort(const Plan& plan) {
  const std::vector<std::string>& notes = plan.search.notes;
  return std::find(notes.begin(), notes.end(), kCutShort) != notes.end();
}

Plan StagesOf(const Planning& planning, const std::vector<int>& ends, int64_t microbatches) {
  Plan plan = planning.Blank("brute force", "1f1b");
  plan.microbatches = microbatches;
  plan.pipelines.emplace_back();
  const auto orders =
      OneForwardOneBackward(static_cast<int>(ends.size()), static_cast<int>(microbatches));
  int first = 0;
  for (size_t s = 0; s < ends.size(); ++s) {
    StagePlan stage;
    stage.chunks = {{first, ends[s] - 1}};
    stage.devices = {planning.cluster->devices()[s].name};
    stage.shares = {1};
    stage.order = orders[s];
    stage.recompute = true;
    plan.pipelines[0].stages.push_back(std::move(stage));
    first = ends[s];
  }
  return plan;
}

Plan ReplicasOf(const Planning& planning, int64_t microbatches) {
  Plan plan = StagesOf(planning, {planning.chain.size()}, microbatches);
  StagePlan& stage = plan.pipelines[0].stages[0];
  stage.devices.clear();
  for (const Device& device : planning.cluster->devices()) stage.devices.push_back(device.name);
  stage.shares.assign(stage.devices.size(), 1);
  return plan;
}

bool Fits(const Planning& planning, const Plan& plan) {
  const Result<Evaluation> evaluation = Evaluate(planning, plan, /*keep_events=*/false);
  return evaluation.ok() && evaluation.value().lacks.value == 0;
}

// Calls `visit` with the ends of the stages of every way to cut, until it says true.
bool AnyCut(int layers, int most_stages,
            const std::function<bool(const std::vector<int>&)>& visit) {
  std::vector<int> ends;
  const std::function<bool(int)> go_on = [&](int first) {
    ends.push_back(layers);
    const bool found = visit(ends);
    ends.pop_back();
    if (found || static_cast<int>(ends.size()) + 1 == most_stages) return found;
    for (int end = first + 1; end < layers; ++end) {
      ends.push_back(end);
      const bool deeper = go_on(end);
      ends.pop_back();
      if (deeper) return true;
    }
    return false;
  };
  return go_on(0);
}

}  // namespace

const std::vector<std::string>& FamilyOf(const std::string& name) {
  static const std::map<std::string, std::vector<std::string>> families = {
      {"pipeline",
       {"dp", "dp-proportional", "gpipe", "1f1b", "zb-h1", "interleaved", "pipedream", "dapple",
        "hetpipe"}},
      {"spmd", {"dp", "dp-proportional", "zero", "tensor-parallel", "expert-parallel"}}};
  static const std::vector<std::string> none;
  const auto found = families.find(name);
  return found == families.end() ? none : found->second;
}

bool SomePipelineFits(const Planning& planning) {
  constexpr int kFewLayers = 12, kFewDevices = 4;
  constexpr int64_t kSmallBatch = 64;
  const int layers = planning.chain.size(), devices = planning.cluster->device_count();
  const int64_t batch = planning.request.batch;
  if (layers > kFewLayers || devices > kFewDevices || batch > kSmallBatch) return false;
  const int64_t microbatches = planning.request.microbatches.value_or(batch);
  if (batch >= devices && Fits(planning, ReplicasOf(planning, microbatches))) return true;
  return AnyCut(layers, devices, [&](const std::vector<int>& ends) {
    return Fits(planning, StagesOf(planning, ends, microbatches));
  });
}

Result<MonkeyOutcome> CheckMonkeyCase(const MonkeyCase& one, const MonkeyOptions& options) {
  HEDDLE_RETURN_IF_ERROR(WriteMonkeyFiles(one));
  HEDDLE_ASSIGN(const Cluster cluster, LoadCluster(one.cluster_path()));
  HEDDLE_ASSIGN(const Planning planning, Planning::Make(one.options, cluster, nullptr));
  MonkeyOutcome outcome;
  outcome.rows = Survey(planning, options.planners, Deadline::In(options.budget_seconds)).Run({});
  const auto command = [&](const std::string& strategy) {
    return one.Command("plan --strategy " + strategy);
  };
  std::map<std::string, const Surveyed*> by_name;
  for (const Surveyed& row : outcome.rows) by_name[row.planner->name] = &row;
  for (const Surveyed& row : outcome.rows) {
    const std::string& name = row.planner->name;
    if (row.status == SurveyStatus::kFailed) {
      outcome.findings.push_back(
          {fmt::format("{} failed: {}", name, row.error->ToString()), command(name)});
    }
    // Others are refused for what they were asked, not for want of memory.
    const bool none = row.status == SurveyStatus::kInfeasible &&
                      row.error->what.find("nothing fits") != std::string::npos;
    if (name == "pipeline" && none && SomePipelineFits(planning)) {
      outcome.findings.push_back(
          {"pipeline finds nothing that fits, brute force does: " + row.error->ToString(),
           command(name)});
    }
    for (const std::string& other : FamilyOf(name)) {
      const auto found = by_name.find(other);
      if (found == by_name.end() || found->second->status != SurveyStatus::kOk) continue;
      const double theirs = found->second->plan->seconds_per_batch();
      if (none) {
        outcome.findings.push_back({fmt::format("{} finds nothing that fits, {} does: {}", name,
                                                other, row.error->ToString()),
                                    command(name)});
      }
      if (row.status != SurveyStatus::kOk || CutShort(*row.plan)) continue;
      const double ours = row.plan->seconds_per_batch();
      if (ours <= theirs * (1 + 1e-9)) continue;
      outcome.findings.push_back(
          {fmt::format("{} is behind {}: {}, {} ({:+.2f}%)", name, other, ToText(Seconds{ours}),
                       ToText(Seconds{theirs}), 100 * (ours / theirs - 1)),
           command(name), ours / theirs});
    }
  }
  return outcome;
}

}  // namespace heddle
