// Do the bodies of a pipeline's stages compute the model? Each is replayed by itself
// (spmd_check.h): its own layers' ops, what arrives from its neighbours, what they want of it.
#pragma once

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"

namespace heddle {

// What does not compose with bodies, by a table with reasons, and what needs no graph: meshes,
// ratios, devices. REQUIRES: plan.has_bodies().
Status ValidateBodies(const Plan& plan, const std::string& where);

// REQUIRES: ValidatePlan is ok. `where` names the plan in errors.
Status CheckBodies(const Plan& plan, const Graph& graph, const std::string& where);

}  // namespace heddle
