// Orders: what a device of a pipeline does, as a list a person can read.
//
//   F3     forward of microbatch 3            B3   its whole backward
//   I3 W3  its backward in two parts, with respect to inputs and to weights
//   F3.1   of the stage's second run of layers (interleaved stages have several)
//
// Written without a number a letter means the next microbatch of its kind, with '-' the one before
// the last; `*4` repeats, and brackets group. 1F1B on the first of four stages, eight microbatches:
//
//   F*3 (F B)*5 B*3
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle {

enum class WorkKind : char { kForward = 'F', kBackward = 'B', kInput = 'I', kWeight = 'W' };

struct WorkItem {
  WorkKind kind = WorkKind::kForward;
  int32_t chunk = 0;
  int32_t microbatch = 0;

  auto operator<=>(const WorkItem&) const = default;
};

using WorkOrder = std::vector<WorkItem>;

inline constexpr size_t kMostWorkItems = size_t{1} << 22;

// parse ∘ print = identity. `where` names the field in errors; an order of more than `most` items
// is refused, since a short text can mean a long one.
Result<WorkOrder> ParseOrder(std::string_view text, const std::string& where,
                             size_t most = kMostWorkItems);
std::string PrintOrder(const WorkOrder& order);

}  // namespace heddle
