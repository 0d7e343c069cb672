#include "worker/emulated_network.h"

#include "office/cluster_network.h"
#include "program/segment_cost.h"

namespace heddle {
namespace {

Result<std::unique_ptr<Emulation>> MakeEmulation(const LoadedPlan& loaded, const Program& program,
                                                 const std::vector<DeviceId>& devices,
                                                 DType run_dtype,
                                                 std::unique_ptr<NetworkModel> network) {
  const OpCost cost = loaded.planning->cost();
  HEDDLE_ASSIGN(const SegmentSeconds modelled, CostSegments(program, *loaded.cluster, &cost));
  std::vector<std::vector<double>> seconds(program.devices.size());
  for (size_t d = 0; d < seconds.size(); ++d) {
    for (size_t s = 0; s < program.segments.size(); ++s) {
      seconds[d].push_back(modelled.Of(static_cast<int32_t>(d), static_cast<int32_t>(s)));
    }
  }
  std::vector<double> message_seconds;
  for (const DeviceId id : devices) {
    message_seconds.push_back(loaded.cluster->type_of(id).MessageSeconds(1).value);
  }
  std::vector<std::vector<int32_t>> groups;
  for (const Group& group : program.groups) groups.push_back(group.devices);
  const double scale = static_cast<double>(SizeOf(loaded.plan.request.dtype)) /
                       static_cast<double>(SizeOf(run_dtype));
  return std::make_unique<Emulation>(EmulationModel{std::move(seconds), std::move(message_seconds),
                                                    std::move(groups), std::move(network), scale});
}

}  // namespace

Result<std::unique_ptr<Emulation>> EmulatePlan(const LoadedPlan& loaded, const Program& program,
                                               DType run_dtype) {
  const LinkModel links = loaded.planning->request.links;
  if (links == LinkModel::kChannels) {
    return BadInput("plan: links",
                    "channels are an assumption, not a network: there is nothing to "
                    "emulate",
                    "plan with --links shared or exclusive");
  }
  HEDDLE_ASSIGN(const std::vector<DeviceId> devices, FindDevices(program, *loaded.cluster));
  return MakeEmulation(loaded, program, devices, run_dtype,
                       std::make_unique<ClusterNetwork>(*loaded.cluster, program, devices, links));
}

Result<std::unique_ptr<Emulation>> EmulateDevices(const LoadedPlan& loaded, const Program& program,
                                                  DType run_dtype) {
  HEDDLE_ASSIGN(const std::vector<DeviceId> devices, FindDevices(program, *loaded.cluster));
  return MakeEmulation(loaded, program, devices, run_dtype, nullptr);
}

}  // namespace heddle
