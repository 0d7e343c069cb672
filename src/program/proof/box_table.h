// BoxTable: parts of tensors as numbers, so that equal ones are compared at once.
//
//   BoxTable boxes;
//   const BoxId left = boxes.Of({{0, 4}, {0, 3}});
//   boxes.Intersection(left, boxes.Of({{0, 4}, {2, 6}}))   ->  {0:4, 2:3}
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "program/program.h"

namespace heddle {

using BoxId = int32_t;

class BoxTable {
 public:
  static constexpr BoxId kNothing = -1;

  BoxId Of(const Slice& slice);
  const Slice& operator[](BoxId id) const { return slices_[static_cast<size_t>(id)]; }

  // What both have; kNothing where that has no elements.
  BoxId Intersection(BoxId a, BoxId b);

 private:
  struct HashOf {
    size_t operator()(const Slice& slice) const;
  };
  std::unordered_map<Slice, BoxId, HashOf> ids_;
  std::vector<Slice> slices_;
};

}  // namespace heddle
