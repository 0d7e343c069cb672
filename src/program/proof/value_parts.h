// ValueParts: what a buffer has, part by part, and how such values are cut and added up.
#pragma once

#include <cstdint>
#include <vector>

#include "program/proof/box_table.h"
#include "program/proof/sum_terms.h"

namespace heddle {

// A part of a tensor and the terms that are there of it. Axis 0 of what belongs to samples counts
// rows of the microbatch. A statistic of several samples has one axis more, the first: the rows of
// the microbatch that it is of.
struct ValuePart {
  BoxId box = BoxTable::kNothing;
  SumTerms terms;

  bool operator==(const ValuePart&) const = default;
};
using ValueParts = std::vector<ValuePart>;

// The parts of a sum of parts that may overlap, each part's terms added up; `within` is all that
// there is of it, and zero where no part is.
ValueParts Overlay(BoxTable& boxes, BoxId within, const ValueParts& parts);

// What lies within a box.
ValueParts Restrict(BoxTable& boxes, BoxId within, const ValueParts& parts);

// Parts that do not overlap: do they fill the box?
bool Fill(const BoxTable& boxes, BoxId box, const ValueParts& parts);

// Joins parts with equal terms where they make one box.
void JoinEqual(BoxTable& boxes, ValueParts& parts);

// The least box around all parts. REQUIRES: there is one.
BoxId HullOf(BoxTable& boxes, const ValueParts& parts);

}  // namespace heddle
