// ClusterNetwork: the network of a cluster that is not here, as a run's emulation asks for it: the
// simulator's, of one Program and its devices.
//
//   HEDDLE_ASSIGN(const std::vector<DeviceId> devices, FindDevices(program, cluster));
//   Emulation emulation({…, .network = std::make_unique<ClusterNetwork>(cluster, program, devices,
//                                                                       LinkModel::kShared)});
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "cluster/cluster.h"
#include "cost/network_cost.h"
#include "program/program.h"
#include "run/emulation.h"
#include "simulate/network.h"

namespace heddle {

class ClusterNetwork final : public NetworkModel {
 public:
  // `devices`: of the Program, in the cluster. Cluster and Program must outlive it.
  ClusterNetwork(const Cluster& cluster, const Program& program, std::vector<DeviceId> devices,
                 LinkModel links);

  void StartMessage(int32_t id, int32_t from, int32_t to, Bytes bytes, double now) override;
  void StartCollective(int32_t id, CollectiveKind kind, CollectiveAlgorithm algorithm,
                       int32_t group, const std::vector<Bytes>& sizes, double now) override;
  double NextTime() const override { return network_->NextTime(); }
  void Advance(double now, std::vector<int32_t>& done) override;

 private:
  DeviceId IdOf(int32_t device) const { return devices_[static_cast<size_t>(device)]; }
  void Start(int32_t id, const CommCost& cost, int32_t stream, double now);

  const Program& program_;
  std::vector<DeviceId> devices_;
  NetworkCost cost_;
  std::unique_ptr<Network> network_;
  std::map<int32_t, std::vector<FlowLoad>> loads_;  // of the flows in flight
};

}  // namespace heddle
