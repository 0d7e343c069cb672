#include "plan/baseline/spmd_baselines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "plan/spmd/microbatch_search.h"

namespace heddle {
namespace {

// Nobody may be left without a sample, as with `dp`.
Status CheckBatch(const std::string& strategy, const Planning& planning,
                  const std::vector<SpmdMesh>& meshes, bool inside) {
  int64_t most = 0;
  for (const SpmdMesh& mesh : meshes) {
    most = std::max(most, static_cast<int64_t>(inside ? mesh.size() : mesh.places(0)));
  }
  if (planning.request.batch >= most) return Ok();
  return Infeasible(
      strategy,
      fmt::format("a batch of {} leaves some of {} {} without a sample", planning.request.batch,
                  most, inside ? "devices" : "groups of devices"),
      fmt::format("give --batch {} or more, or fewer devices", most));
}

Result<Plan> PlanAs(SpmdFamily family, const std::string& strategy, const Planning& planning) {
  HEDDLE_RETURN_IF_ERROR(CheckBatch(strategy, planning,
                                    MeshesFor(family, planning.graph, *planning.cluster),
                                    family != SpmdFamily::kTensor));
  Best best(planning);
  const auto find = [&](const Planning& part, const SpmdAim& aim) {
    return PlanFamily(part, aim, family, strategy);
  };
  HEDDLE_ASSIGN(const std::optional<Error> refused, TryPrograms(planning, strategy, find, best));
  const bool late = planning.deadline.passed();
  if (best.tried() == 0 && refused && !late) return *refused;
  return std::move(best).Take();
}

}  // namespace

Result<Plan> PlanZero(const Planning& planning) {
  return PlanAs(SpmdFamily::kZero, "zero", planning);
}

Result<Plan> PlanTensorParallel(const Planning& planning) {
  const Cluster& cluster = *planning.cluster;
  if (GroupSizes(cluster).empty()) {
    std::vector<std::string> sizes;
    for (const Node& node : cluster.nodes()) sizes.push_back(std::to_string(node.devices.size()));
    return Infeasible(
        "tensor-parallel",
        fmt::format("nodes of {} devices have no groups of equal size", Join(sizes, ", ")),
        "nodes of two or more devices each, with a common divisor, have");
  }
  return PlanAs(SpmdFamily::kTensor, "tensor-parallel", planning);
}

Result<Plan> PlanExpertParallel(const Planning& planning) {
  const int64_t experts = ExpertsOf(planning.graph);
  if (experts == 0) {
    return Infeasible("expert-parallel", fmt::format("{} has no experts", planning.request.model),
                      "bert-moe and tiny-moe have");
  }
  if (MeshesFor(SpmdFamily::kExpert, planning.graph, *planning.cluster).empty()) {
    return Infeasible(
        "expert-parallel",
        fmt::format("{} experts are fewer than the {} devices, and nodes have no "
                    "groups of so few",
                    experts, planning.cluster->device_count()),
        fmt::format("give the model experts={} or more", planning.cluster->device_count()));
  }
  return PlanAs(SpmdFamily::kExpert, "expert-parallel", planning);
}

}  // namespace heddle
