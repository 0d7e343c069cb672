// An SPMD plan as a table: for each run of layers that are treated alike, how its weights are
// stored, along which letters its ops are divided, and what is exchanged.
#pragma once

#include <string>

#include "program/plan/plan.h"
#include "report/text_table.h"
#include "timeline/timeline.h"

namespace heddle {

// REQUIRES of both: plan.spmd.
std::string SpmdText(const Plan& plan, const Graph& graph, const TableStyle& style);

// The exchanges that take longest in a simulation of the plan.
std::string ExchangesText(const Plan& plan, const Graph& graph, const Timeline& timeline,
                          const TableStyle& style);

}  // namespace heddle
