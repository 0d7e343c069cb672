// Why a plan takes as long as it does, as `explain` prints it.
#pragma once

#include <string>

#include "plan/planning.h"
#include "report/text_table.h"
#include "report/throughput.h"

namespace heddle {

// A plan in use, its estimate filled in again with all that explain tells of it.
struct ExplainedPlan {
  Plan plan;
  Simulation simulation;
  Throughput throughput;
};
Result<ExplainedPlan> ExplainPlan(const Planning& planning, Plan plan);

// What limits it comes first, then the tables. `all`: every device, layer, tensor and exchange.
std::string ExplanationText(const ExplainedPlan& explained, const Planning& planning,
                            const TableStyle& style, bool all);

}  // namespace heddle
