#include "program/plan/spmd_plan.h"

#include "program/plan/row_shares.h"

namespace heddle {

std::vector<Range> ShardRanges(int64_t extent, std::span<const double> ratios) {
  return DivideRows(extent, {ratios.begin(), ratios.end()});
}

Slice ShardOf(std::span<const int64_t> shape, const Layout& layout, const SpmdPlan& plan,
              std::array<size_t, kMeshAxes> place) {
  Slice slice;
  for (const int64_t extent : shape) slice.push_back({0, extent});
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const ShardState& state = layout[axis];
    if (state.kind != ShardKind::kSharded) continue;
    Range& range = slice[static_cast<size_t>(state.dim)];
    const auto& ratios = plan.ratios[axis][static_cast<size_t>(state.ratios)];
    const Range part = ShardRanges(range.size(), ratios)[place[axis]];
    range = {range.begin + part.begin, range.begin + part.end};
  }
  return slice;
}

}  // namespace heddle
