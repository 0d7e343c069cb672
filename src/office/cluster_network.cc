#include "office/cluster_network.h"

#include <utility>

namespace heddle {

ClusterNetwork::ClusterNetwork(const Cluster& cluster, const Program& program,
                               std::vector<DeviceId> devices, LinkModel links)
    : program_(program),
      devices_(std::move(devices)),
      cost_(cluster),
      network_(MakeNetwork(links, WireBandwidths(cluster), 0)) {}

void ClusterNetwork::StartMessage(int32_t id, int32_t from, int32_t to, Bytes bytes, double now) {
  const auto devices = static_cast<int32_t>(devices_.size());
  Start(id, cost_.Transfer(IdOf(from), IdOf(to), bytes), from * devices + to, now);
}

void ClusterNetwork::StartCollective(int32_t id, CollectiveKind kind, CollectiveAlgorithm algorithm,
                                     int32_t group, const std::vector<Bytes>& sizes, double now) {
  std::vector<DeviceId> members;
  for (const int32_t device : program_.group(group).devices) members.push_back(IdOf(device));
  Start(id, cost_.Collective({kind, members, sizes, algorithm, 0}), -1, now);
}

void ClusterNetwork::Start(int32_t id, const CommCost& cost, int32_t stream, double now) {
  FlowSpec flow = FlowOf(cost, loads_[id]);
  flow.stream = stream;
  network_->Start(id, flow, now);
}

void ClusterNetwork::Advance(double now, std::vector<int32_t>& done) {
  const size_t before = done.size();
  network_->Advance(now, done);
  for (size_t k = before; k < done.size(); ++k) loads_.erase(done[k]);
}

}  // namespace heddle
