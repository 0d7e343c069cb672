// The segments that update the weights of each gradient bucket. Internal to lowering.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph.h"
#include "program/lower/plan_layout.h"
#include "program/lower/segment_maker.h"

namespace heddle {

// By bucket. Weights change in place, or, where the maker versions them, into the next version;
// where it replicates them, they are those of the instruction's replica.
std::vector<int32_t> AddUpdates(const Graph& graph, const PlanLayout& layout, SegmentMaker& maker);

}  // namespace heddle
