#include "cost/network_cost.h"

#include <algorithm>
#include <array>

#include "cost/collectives.h"
#include "cost/comm_phases.h"

namespace heddle {

double BytesMoved(CollectiveKind kind, size_t members, double bytes) {
  const auto count = static_cast<double>(members);
  const double once = 2 * bytes * (count - 1) / count;
  if (kind == CollectiveKind::kAllToAll) return once / count;  // each has a part, and keeps one
  return kind == CollectiveKind::kAllReduce ? 2 * once : once;
}
namespace {

bool HasBlocks(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter;
}

void CheckRequest(const CollectiveRequest& request) {
  const size_t members = request.group.size();
  HEDDLE_CHECK(members > 0);
  switch (request.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
      HEDDLE_CHECK(request.sizes.size() == 1);
      break;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      HEDDLE_CHECK(request.sizes.size() == members);
      break;
    case CollectiveKind::kAllToAll:
      HEDDLE_CHECK(request.sizes.size() == members * members);
      break;
  }
  HEDDLE_CHECK(request.root >= 0 && static_cast<size_t>(request.root) < members);
  for (const Bytes size : request.sizes) HEDDLE_CHECK(size.value >= 0);
}

void AddRing(const CollectiveRequest& request, CommPhases& phases) {
  switch (request.kind) {
    case CollectiveKind::kAllReduce:
      return RingAllReduce(request, phases);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      return RingBlocks(request, phases);
    case CollectiveKind::kAllToAll:
      return DirectAllToAll(request, phases);
    case CollectiveKind::kBroadcast:
      return ChainBroadcast(request, phases);
  }
}

void AddHierarchical(const CollectiveRequest& request, CommPhases& phases) {
  if (request.kind == CollectiveKind::kAllReduce) return HierarchicalAllReduce(request, phases);
  if (request.kind == CollectiveKind::kBroadcast) return HierarchicalBroadcast(request, phases);
  return HierarchicalBlocks(request, phases);
}

}  // namespace

// alpha + S / bandwidth of the narrowest wire (cut-through).
CommCost NetworkCost::Transfer(DeviceId from, DeviceId to, Bytes bytes) const {
  HEDDLE_CHECK(bytes.value >= 0);
  CommPhases phases(*cluster_, counts_traffic_);
  const Message message{from, to, static_cast<double>(bytes.value)};
  phases.AddPhase({&message, 1});
  return std::move(phases).Finish();
}

CommCost NetworkCost::Collective(const CollectiveRequest& request) const {
  CheckRequest(request);
  HEDDLE_CHECK(Supports(request));
  const bool nothing = std::all_of(request.sizes.begin(), request.sizes.end(),
                                   [](Bytes size) { return size.value == 0; });
  if (nothing || request.group.size() == 1) return {};
  CommPhases phases(*cluster_, counts_traffic_);
  switch (request.algorithm) {
    case CollectiveAlgorithm::kRing:
      AddRing(request, phases);
      break;
    case CollectiveAlgorithm::kTree:
      TreeCollective(request, phases);
      break;
    case CollectiveAlgorithm::kHierarchical:
      AddHierarchical(request, phases);
      break;
    case CollectiveAlgorithm::kGrouped:
      GroupedBlocks(request, phases);
      break;
  }
  return std::move(phases).Finish();
}

bool NetworkCost::Supports(const CollectiveRequest& request) const {
  switch (request.algorithm) {
    case CollectiveAlgorithm::kRing:
      return true;
    case CollectiveAlgorithm::kTree:
      return request.kind != CollectiveKind::kAllToAll;
    case CollectiveAlgorithm::kHierarchical:
      return request.kind != CollectiveKind::kAllToAll && SpansNodes(*cluster_, request.group);
    case CollectiveAlgorithm::kGrouped:
      return HasBlocks(request.kind);
  }
  return false;
}

CollectiveAlgorithm NetworkCost::Cheapest(CollectiveRequest request) const {
  CollectiveAlgorithm best = CollectiveAlgorithm::kRing;
  request.algorithm = best;
  Seconds least = Collective(request).seconds;
  for (const auto& choice : Choices<CollectiveAlgorithm>::kTable) {
    request.algorithm = choice.value;
    if (choice.value == CollectiveAlgorithm::kRing || !Supports(request)) continue;
    const Seconds seconds = Collective(request).seconds;
    if (seconds >= least) continue;
    least = seconds;
    best = request.algorithm;
  }
  return best;
}

}  // namespace heddle
