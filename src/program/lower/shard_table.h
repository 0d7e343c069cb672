// ShardTable: which part of what every device of a mesh has. ShardOf (spmd_plan.h), but each
// division of an axis once. Internal to lowering.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "program/plan/spmd_plan.h"

namespace heddle {

using MeshPlace = std::array<size_t, kMeshAxes>;

class ShardTable {
 public:
  explicit ShardTable(const SpmdPlan& plan) : plan_(plan) {}  // must outlive this

  Slice PartOf(const Tensor& tensor, const Layout& layout, const MeshPlace& place);
  // The parts of the op's letters that are not whole.
  Shards ShardsOf(const Op& op, const OpRule& rule, const MeshPlace& place);

 private:
  Range Cut(Range range, size_t axis, int ratios, size_t place);

  const SpmdPlan& plan_;
  std::map<std::tuple<size_t, int, int64_t>, std::vector<Range>> parts_;
};

}  // namespace heddle
