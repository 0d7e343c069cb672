// How a tensor gets from one layout into another (spmd_plan.h), along one mesh axis or both:
//
//   R -> S, R -> P, S -> P   nobody talks: a part is taken, or the rest filled with zeros; of
//                            R -> P the first device keeps the value, the others have zeros
//   S -> R   all-gather          P -> R   all-reduce
//   P -> S   reduce-scatter      S -> S   all-to-all, to another dimension or other ratios
//
// Both axes change at once only where they change alike, over all devices, or without talking.
#pragma once

#include <optional>

#include "cost/network_cost.h"
#include "model/sharding.h"

namespace heddle {

struct SpmdConversion {
  bool exchanges = false;                            // otherwise each device does it by itself
  CollectiveKind kind = CollectiveKind::kAllReduce;  // of an exchange
  int axis = 0;                                      // along which; kMeshAxes: all devices

  bool operator==(const SpmdConversion&) const = default;
};

// Nothing where no single exchange does it. Where both axes shard one dimension, the inner one
// divides what the outer one left, so the outer one cannot change beneath it.
std::optional<SpmdConversion> ConversionOf(const Layout& from, const Layout& to);

// The axes along which the first device alone keeps the value: R -> P.
inline bool Masks(const Layout& from, const Layout& to, size_t axis) {
  return from[axis].kind == ShardKind::kReplicated && to[axis].kind == ShardKind::kPartial;
}

}  // namespace heddle
