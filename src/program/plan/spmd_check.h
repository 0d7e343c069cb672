// Does an SPMD plan compute the graph? Replays its steps, knowing nothing of how it was found:
// every op once and under one of its rules, every input there in the layout its rule asks for,
// conversions that exist, sums with all their terms, updates where the parameter is stored.
//
// What is there:
//   * data in every layout without partial sums; nobody needs to convert it;
//   * parameters and optimizer state in their storage; after the update no older copies;
//   * what an op or a conversion made, until the end. A conversion may make a layout again, so that
//     the copy before it need not be kept in between (weights gathered again for backward);
//   * of a sum (a tied weight's gradient, the squared norm of all gradients) in each layout the
//     terms that were delivered in it or converted to it: other terms are added, the same or fewer
//     replaced. No term may come in twice.
// A loss goes to the log: partial or replicated, never converted. Whole numbers are never partial.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/stage_body.h"

namespace heddle {

// `where` names the plan in errors.
Status CheckSpmdPlan(const SpmdPlan& plan, const Graph& graph, const std::string& where);

// Steps that are done together, what other stages made before, and what they want afterwards.
struct ReplayPart {
  size_t begin = 0, end = 0;
  std::vector<BodyArrival> arrives;
  std::vector<TensorId> leaves;
  std::function<bool(const Op&)> belongs;  // null: all do

  bool Has(const Op& op) const { return !belongs || belongs(op); }
};

// What a list of steps has to compute, and from what: of the whole model, or of a stage.
struct ReplayScope {
  std::string whose;                // "the model", "the stage"
  std::vector<bool> ops;            // to be computed
  std::vector<int32_t> parameters;  // stored, numbers of the graph's
  std::vector<ReplayPart> parts;    // in the order of work
};
Status CheckSteps(const SpmdPlan& plan, const Graph& graph, const ReplayScope& scope,
                  const std::string& where);

// The part of it that needs no graph: a mesh with equal nodes, ratio vectors that fit it.
Status CheckMesh(const SpmdPlan& plan, const std::string& where);

}  // namespace heddle
