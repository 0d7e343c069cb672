// The collectives as phases of messages: one function per kind and algorithm.
//
// Symbols in their comments: p members, S bytes of the whole buffer, b_i the block of member i,
// alpha the latency of a route. Sources:
//   Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH,
//     IJHPCA 2005 (ring, binomial tree);
//   Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and
//     experience, CCPE 2007 (gather and broadcast, reduction and scatter, lower bounds);
//   Patarasu, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations,
//     JPDC 2009 (ring all-reduce).
// REQUIRES of all: at least two members, NetworkCost::Supports, not all sizes zero.
#pragma once

#include "cost/comm_phases.h"
#include "cost/network_cost.h"

namespace heddle {

// flat_collectives.cc
void RingAllReduce(const CollectiveRequest& request, CommPhases& phases);
void RingBlocks(const CollectiveRequest& request, CommPhases& phases);
void ChainBroadcast(const CollectiveRequest& request, CommPhases& phases);
void DirectAllToAll(const CollectiveRequest& request, CommPhases& phases);
void TreeCollective(const CollectiveRequest& request, CommPhases& phases);
void GroupedBlocks(const CollectiveRequest& request, CommPhases& phases);

// hierarchical_collectives.cc
bool SpansNodes(const Cluster& cluster, std::span<const DeviceId> group);
void HierarchicalAllReduce(const CollectiveRequest& request, CommPhases& phases);
void HierarchicalBlocks(const CollectiveRequest& request, CommPhases& phases);
void HierarchicalBroadcast(const CollectiveRequest& request, CommPhases& phases);

}  // namespace heddle
