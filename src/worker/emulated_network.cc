#include "worker/emulated_network.h"

#include <map>

#include "program/segment_cost.h"
#include "simulate/network.h"

namespace heddle {
namespace {

class EmulatedNetwork final : public NetworkModel {
 public:
  EmulatedNetwork(const Cluster& cluster, const Program& program, std::vector<DeviceId> devices,
                  LinkModel links)
      : program_(program),
        devices_(std::move(devices)),
        cost_(cluster),
        network_(MakeNetwork(links, WireBandwidths(cluster), 0)) {}

  void StartMessage(int32_t id, int32_t from, int32_t to, Bytes bytes, double now) override {
    const auto devices = static_cast<int32_t>(devices_.size());
    Start(id, cost_.Transfer(IdOf(from), IdOf(to), bytes), from * devices + to, now);
  }

  void StartCollective(int32_t id, CollectiveKind kind, CollectiveAlgorithm algorithm,
                       int32_t group, const std::vector<Bytes>& sizes, double now) override {
    std::vector<DeviceId> members;
    for (const int32_t device : program_.group(group).devices) members.push_back(IdOf(device));
    Start(id, cost_.Collective({kind, members, sizes, algorithm, 0}), -1, now);
  }

  double NextTime() const override { return network_->NextTime(); }

  void Advance(double now, std::vector<int32_t>& done) override {
    const size_t before = done.size();
    network_->Advance(now, done);
    for (size_t k = before; k < done.size(); ++k) loads_.erase(done[k]);
  }

 private:
  DeviceId IdOf(int32_t device) const { return devices_[static_cast<size_t>(device)]; }

  void Start(int32_t id, const CommCost& cost, int32_t stream, double now) {
    FlowSpec flow = FlowOf(cost, loads_[id]);
    flow.stream = stream;
    network_->Start(id, flow, now);
  }

  const Program& program_;
  std::vector<DeviceId> devices_;
  NetworkCost cost_;
  std::unique_ptr<Network> network_;
  std::map<int32_t, std::vector<FlowLoad>> loads_;  // of the flows in flight
};

}  // namespace

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
  std::vector<size_t> group_sizes;
  for (const Group& group : program.groups) group_sizes.push_back(group.devices.size());
  const double scale = static_cast<double>(SizeOf(loaded.plan.request.dtype)) /
                       static_cast<double>(SizeOf(run_dtype));
  return std::make_unique<Emulation>(std::move(seconds), std::move(message_seconds),
                                     std::move(group_sizes), std::move(network), scale);
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
                       std::make_unique<EmulatedNetwork>(*loaded.cluster, program, devices, links));
}

Result<std::unique_ptr<Emulation>> EmulateDevices(const LoadedPlan& loaded, const Program& program,
                                                  DType run_dtype) {
  HEDDLE_ASSIGN(const std::vector<DeviceId> devices, FindDevices(program, *loaded.cluster));
  return MakeEmulation(loaded, program, devices, run_dtype, nullptr);
}

}  // namespace heddle
