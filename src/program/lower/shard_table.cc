#include "program/lower/shard_table.h"

#include <algorithm>

namespace heddle {

Range ShardTable::Cut(Range range, size_t axis, int ratios, size_t place) {
  std::vector<Range>& parts = parts_[{axis, ratios, range.size()}];
  if (parts.empty()) {
    parts = ShardRanges(range.size(), plan_.ratios[axis][static_cast<size_t>(ratios)]);
  }
  return {range.begin + parts[place].begin, range.begin + parts[place].end};
}

Slice ShardTable::PartOf(const Tensor& tensor, const Layout& layout, const MeshPlace& place) {
  Slice slice;
  for (const int64_t extent : tensor.shape) slice.push_back({0, extent});
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    if (layout[axis].kind != ShardKind::kSharded) continue;
    Range& range = slice[static_cast<size_t>(layout[axis].dim)];
    range = Cut(range, axis, layout[axis].ratios, place[axis]);
  }
  return slice;
}

Shards ShardTable::ShardsOf(const Op& op, const OpRule& rule, const MeshPlace& place) {
  Shards shards;
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const char letter = rule[axis].letter;
    if (letter == 0) continue;
    const bool twice = !shards.empty() && shards.back().first == letter;
    if (!twice) shards.push_back({letter, {0, op.extents[op.IndexOf(letter)]}});
    Range& range = shards.back().second;
    range = Cut(range, axis, rule[axis].ratios, place[axis]);
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

}  // namespace heddle
