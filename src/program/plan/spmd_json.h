// An SPMD plan as JSON, small enough to read: steps are lines such as "block0.fc1 b.n" (an op and
// its rule on both mesh axes) and "d.x: P.R -> R.R ring" (a tensor, its layouts, the algorithm).
// docs/plan.md shows one.
#pragma once

#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "model/graph.h"
#include "program/plan/stage_body.h"

namespace heddle {

Json SpmdToJson(const SpmdPlan& plan, const Graph& graph);
// Names must be the graph's; whether the steps compute it is CheckSpmdPlan's affair.
Result<SpmdPlan> SpmdFromJson(const JsonField& json, const Graph& graph);

// Parts of it, which the bodies of stages have too (body_json.h).
Status ReadMesh(const JsonField& json, SpmdPlan& plan);  // and ratios
// Of these parameters; those that are not listed are everywhere.
Status ReadStorage(const JsonField& json, const Graph& graph,
                   const std::vector<int32_t>& parameters, SpmdPlan& plan);
Json StorageToJson(const SpmdPlan& plan, const Graph& graph);
Json StepsToJson(const SpmdPlan& plan, size_t begin, size_t end, const Graph& graph);
Status ReadSteps(const JsonField& steps, const Graph& graph, SpmdPlan& plan);
Json ArrivalToJson(const BodyArrival& arrival, const Graph& graph);  // "block0.y: S0.R"
Result<BodyArrival> ArrivalFromJson(const JsonField& field, const Graph& graph);

}  // namespace heddle
