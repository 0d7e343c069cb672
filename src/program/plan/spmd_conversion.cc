#include "program/plan/spmd_conversion.h"

namespace heddle {
namespace {

// Without talking to anybody?
bool IsLocal(const ShardState& from, const ShardState& to) {
  return from.kind == ShardKind::kReplicated ||
         (from.kind == ShardKind::kSharded && to.kind == ShardKind::kPartial);
}

// REQUIRES: not local.
CollectiveKind KindOf(const ShardState& from, const ShardState& to) {
  const bool gathers = to.kind == ShardKind::kReplicated;
  if (from.kind == ShardKind::kPartial) {
    return gathers ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter;
  }
  return gathers ? CollectiveKind::kAllGather : CollectiveKind::kAllToAll;
}

bool Alike(const Layout& layout) {
  return layout[0].kind == layout[1].kind && layout[0].dim == layout[1].dim;
}

// Does the inner axis shard a dimension that the outer one shards before or after?
bool ChangesBeneath(const Layout& from, const Layout& to) {
  const ShardState& inner = to[1];
  if (inner.kind != ShardKind::kSharded) return false;
  const auto shards = [&](const ShardState& outer) {
    return outer.kind == ShardKind::kSharded && outer.dim == inner.dim;
  };
  return shards(from[0]) || shards(to[0]);
}

}  // namespace

std::optional<SpmdConversion> ConversionOf(const Layout& from, const Layout& to) {
  if (from == to) return std::nullopt;
  if (from[0] != to[0] && from[1] != to[1]) {
    const bool from_all = from == Layout{};
    if (!from_all && !(Alike(from) && Alike(to))) return std::nullopt;
    if (IsLocal(from[0], to[0])) return SpmdConversion{};
    return SpmdConversion{true, KindOf(from[0], to[0]), kMeshAxes};
  }
  const size_t axis = from[0] == to[0] ? 1 : 0;
  if (axis == 0 && ChangesBeneath(from, to)) return std::nullopt;
  if (IsLocal(from[axis], to[axis])) return SpmdConversion{};
  return SpmdConversion{true, KindOf(from[axis], to[axis]), static_cast<int>(axis)};
}

}  // namespace heddle
