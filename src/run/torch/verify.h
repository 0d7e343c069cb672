// Verify: does a Program compute what one device would?
//
//   const Verification v = VerifyProgram(program, graph, {.steps = 3});
//   if (!v.ok) std::cerr << v.worst;
//
// Runs the Program on devices that are threads of this process, and beside it the reference: plain
// training of the whole batch, written directly on the Graph. Compares the loss of every step, and
// every gradient and parameter after the last. Synthetic data; fp64 by default.
//
// Equal is what rounding explains: the reference is trained again with every operand off by
// rounding (rounding.h), and a tensor may differ by kRoundingFactor times what it moved by then, or
// times one rounding of its largest element.
// There is no other tolerance. docs/decisions/0019-what-verify-promises.md derives it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"
#include "program/program.h"
#include "run/train_options.h"

namespace heddle {

struct VerifyOptions {
  int64_t steps = 3;
  std::vector<LayerAge> ages;      // of an asynchronous plan (plan.h); its ends are steps on top
  std::optional<LocalPlan> local;  // of a LocalSGD plan: `steps` are rounds
  TrainOptions train;
};

// Errors of 6√2 deviations (of a Program's rounding less that of the reference) against a largest
// draw of at least 0.3.
inline constexpr double kRoundingFactor = 32;

struct Verification {
  bool ok = false;
  // Relative to the largest element of the tensor. A tensor that is rounding alone has none.
  double max_loss_error = 0;
  double max_gradient_error = 0;
  double max_parameter_error = 0;
  int64_t tensors = 0;         // compared, on all devices
  int64_t rounding_alone = 0;  // of them: rounding may change them by a tenth or more
  double share = 0;            // the largest error, of what rounding explains; up to 1 is equal
  std::string worst;           // where that is
};

Result<Verification> VerifyProgram(const Program& program, const Graph& graph,
                                   const VerifyOptions& options);

}  // namespace heddle
