// A stage with a body as JSON: what an SPMD plan has (spmd_json.h), its steps by run of layers and
// direction. docs/plan.md shows one.
#pragma once

#include "base/json_fwd.h"
#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"

namespace heddle {

// Adds the body's fields to those of a stage.
void AddBody(const StageBody& body, const Graph& graph, Json& stage);

// REQUIRES: the stage has its runs of layers. Fills in its body and devices.
Status ReadBody(const JsonField& json, const Graph& graph, StagePlan& stage);

}  // namespace heddle
