// How old weights are when they are read, by the rule of a Program's header.
//
//   HEDDLE_ASSIGN(options.ages, AgesByRule(program, "plan.heddle"));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/plan/plan.h"
#include "program/program.h"

namespace heddle {

// How many stages come after each device's: stages begin at different layers.
struct StagesBehind {
  explicit StagesBehind(const Program& program);

  std::vector<int64_t> of_device;
  int64_t stages = 0;
};

// In updates, of a stage with so many behind it.
LayerAge AgeByRule(UpdateRule rule, int64_t behind, int64_t stages);

// By layer, for a reference that has no devices; empty where all is read newest. Bad input if one
// layer is read at several ages.
Result<std::vector<LayerAge>> AgesByRule(const Program& program, const std::string& file);

}  // namespace heddle
