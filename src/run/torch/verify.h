// Verify: does a Program compute what one device would?
//
//   const Verification v = VerifyProgram(program, graph, {.steps = 3});
//   if (!v.ok) std::cerr << v.worst;
//
// Runs the Program on devices that are threads of this process, and beside it the reference: plain
// training of the whole batch, written directly on the Graph. Compares the loss of every step, and
// every gradient and parameter after the last. Synthetic data; fp64 by default.
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
  double tolerance = 1e-9;         // relative to the largest element of the tensor compared
  TrainOptions train;
};

struct Verification {
  bool ok = false;
  double max_loss_error = 0;
  double max_gradient_error = 0;
  double max_parameter_error = 0;
  std::string worst;  // where the largest error is
};

Result<Verification> VerifyProgram(const Program& program, const Graph& graph,
                                   const VerifyOptions& options);

}  // namespace heddle
