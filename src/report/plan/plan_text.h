// A plan as text for people: the decisions, and how good they are.
#pragma once

#include <string>

#include "model/graph.h"
#include "program/plan/plan.h"
#include "report/text_table.h"
#include "report/throughput.h"

namespace heddle {

std::string PlanText(const Plan& plan, const Graph& graph, const Throughput& throughput,
                     const TableStyle& style);

}  // namespace heddle
