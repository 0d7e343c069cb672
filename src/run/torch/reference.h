// Reference: plain training on one device, written directly on the Graph. What Programs must equal:
// synchronous ones as it is, asynchronous ones with delayed reads, LocalSGD with averages.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "model/graph.h"
#include "program/plan/plan.h"
#include "program/program.h"
#include "run/torch/graph_ops.h"
#include "run/torch/rounding.h"
#include "run/torch/torch_executor.h"

namespace heddle {

// What a training run left behind.
struct Trained {
  std::vector<double> losses;                   // by step
  std::map<std::string, at::Tensor> gradients;  // of the last step, by name
  std::map<std::string, at::Tensor> parameters;
};

// The whole batch at once: the graph's ops in order, once per step, on synthetic data. With `ages`,
// by layer, ops read weights that are so many updates old (or the first, before there are as many).
// With `rounding`, everything is off by it.
Trained TrainDirectly(const Graph& graph, const TrainOptions& options, int64_t steps,
                      const NormalisationGroups& groups = {},
                      const std::vector<LayerAge>& ages = {}, Rounding* rounding = nullptr);

// LocalSGD: every replica takes its steps of a round on batches of its own, in turn, then all
// become the average, each with the weight of its steps. By replica; the losses are of all
// together.
std::vector<Trained> TrainLocally(const Graph& graph, const TrainOptions& options, int64_t rounds,
                                  const NormalisationGroups& groups, const LocalPlan& local,
                                  Rounding* rounding = nullptr);

// The input's samples of a step, whole batch.
at::Tensor BatchOf(const Graph& graph, TensorId input, const TrainOptions& options, int64_t step);

}  // namespace heddle
