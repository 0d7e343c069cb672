#include "program/proof/box_table.h"

#include <algorithm>

namespace heddle {

size_t BoxTable::HashOf::operator()(const Slice& slice) const {
  uint64_t hash = slice.size();
  for (const Range& range : slice) {
    for (const int64_t at : {range.begin, range.end}) {
      hash = (hash ^ static_cast<uint64_t>(at)) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

BoxId BoxTable::Of(const Slice& slice) {
  const auto found = ids_.find(slice);
  if (found != ids_.end()) return found->second;
  ids_.emplace(slice, static_cast<BoxId>(slices_.size()));
  slices_.push_back(slice);
  return static_cast<BoxId>(slices_.size()) - 1;
}

BoxId BoxTable::Intersection(BoxId a, BoxId b) {
  if (a == b) return ElementsOf((*this)[a]) == 0 ? kNothing : a;
  Slice common = (*this)[a];
  const Slice& other = (*this)[b];
  for (size_t axis = 0; axis < common.size(); ++axis) {
    common[axis] = {std::max(common[axis].begin, other[axis].begin),
                    std::min(common[axis].end, other[axis].end)};
    if (common[axis].size() <= 0) return kNothing;
  }
  return Of(common);
}

}  // namespace heddle
