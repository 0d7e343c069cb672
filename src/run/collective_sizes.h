// The sizes that a collective's cost is counted with, from the blocks that its members put in.
#pragma once

#include <vector>

#include "cost/network_cost.h"
#include "run/communicator.h"

namespace heddle {

// `blocks`: of each member, in rank order, as in CollectiveCall.
inline std::vector<Bytes> CollectiveSizes(CollectiveKind kind,
                                          const std::vector<std::vector<Bytes>>& blocks) {
  const bool in_place = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBroadcast;
  // The blocks of all make up the sizes; those of a sum are the same for everyone.
  const bool same = in_place || kind == CollectiveKind::kReduceScatter;
  std::vector<Bytes> sizes = blocks.at(0);
  for (size_t member = 1; member < blocks.size() && !same; ++member) {
    sizes.insert(sizes.end(), blocks[member].begin(), blocks[member].end());
  }
  if (!in_place) return sizes;
  Bytes all;
  for (const Bytes size : sizes) all += size;
  return {all};
}

// Bytes that one of so many members moves of its own for this call, sending and receiving.
inline double BytesMovedBy(const CollectiveCall& call, size_t members) {
  const bool gathers = call.kind == CollectiveKind::kAllGather;
  double bytes = 0;  // of all that is divided
  for (const Payload& block : gathers ? call.out : call.in) {
    bytes += static_cast<double>(block.bytes);
  }
  if (call.kind == CollectiveKind::kAllToAll) bytes *= static_cast<double>(members);
  return BytesMoved(call.kind, members, bytes);
}

}  // namespace heddle
