// ShapedLinks: the nodes of a cluster as hosts on this machine: each a network namespace with an
// address of its own, on one switch, its link shaped to a rate in each direction.
//
//   HEDDLE_ASSIGN(const std::vector<HostRates> rates, HostRatesOf(cluster, nodes));
//   HEDDLE_ASSIGN(const ShapedLinks links, ShapedLinks::Make(rates));
//   HEDDLE_RETURN_IF_ERROR(links.Enter(1));              // this thread is on host 1 now
//   ShapedLinks::AddressOf(1)                     ->  "10.77.0.2"
//
// The namespaces have no names: they are there as long as a process has them open, and the links
// and the switch live inside them. So nothing is left behind, however the processes end. Rates are
// shaped; latencies are this machine's, some 0.1 ms. Links inside a node are its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"

namespace heddle {

// Of a host's link, in bytes of messages a second.
struct HostRates {
  double up = 0;
  double down = 0;
};

// What a switch with one link for each node can stand for: routes of different pairs of nodes share
// a wire if and only if they share the sender, its first wires, or the receiver, its last. `nodes`
// are numbers of cluster.nodes(). Bad input: the cluster is none of these, and why.
Result<std::vector<HostRates>> HostRatesOf(const Cluster& cluster, const std::vector<int>& nodes);

class ShapedLinks {
 public:
  // Bad input: this machine does not permit namespaces, and what would help.
  static Status Permitted();
  // Bad input: that, or what else it does not permit.
  static Result<ShapedLinks> Make(const std::vector<HostRates>& hosts);

  bool made() const { return open_ != nullptr; }
  // This thread, and those it starts from now on, see the network of this host alone.
  Status Enter(int32_t host) const;
  static std::string AddressOf(int32_t host);

 private:
  struct Open;  // the namespaces
  std::shared_ptr<const Open> open_;
};

}  // namespace heddle
