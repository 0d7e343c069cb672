// Does an SPMD plan compute the graph? Replays its steps, knowing nothing of how it was found:
// every op once and under one of its rules, every input there in the layout its rule asks for,
// conversions that exist, sums with all their terms, updates where the parameter is stored.
#pragma once

#include <string>

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/spmd_plan.h"

namespace heddle {

// `where` names the plan in errors.
Status CheckSpmdPlan(const SpmdPlan& plan, const Graph& graph, const std::string& where);

// The part of it that needs no graph: a mesh with equal nodes, ratio vectors that fit it.
Status CheckMesh(const SpmdPlan& plan, const std::string& where);

}  // namespace heddle
