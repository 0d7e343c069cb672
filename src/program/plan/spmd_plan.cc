#include "program/plan/spmd_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle {

std::vector<Range> ShardRanges(int64_t extent, std::span<const double> ratios) {
  std::vector<int64_t> sizes;
  std::vector<double> rests;
  for (const double ratio : ratios) {
    const double exact = ratio * static_cast<double>(extent);
    // A product that should be whole may lie just below.
    sizes.push_back(static_cast<int64_t>(std::floor(exact + 1e-9)));
    rests.push_back(exact - static_cast<double>(sizes.back()));
  }
  std::vector<size_t> order(ratios.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rests[a] > rests[b]; });
  int64_t left = extent - std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  for (size_t k = 0; left > 0; ++k, --left) ++sizes[order[k % order.size()]];
  std::vector<Range> ranges;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
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
