// Reference: plain training on one device, written directly on the Graph. What Programs must equal:
// synchronous ones as it is, asynchronous ones with delayed reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "model/graph.h"
#include "program/plan/plan.h"
#include "program/program.h"
#include "run/torch/torch_executor.h"

namespace heddle {

// What a training run left behind.
struct Trained {
  std::vector<double> losses;                   // by step
  std::map<std::string, at::Tensor> gradients;  // of the last step, by name
  std::map<std::string, at::Tensor> parameters;
};

// By layer: the rows of the batch that are normalised together. Batch normalisation over a part of
// the batch is another function, so the reference must know the parts. Empty: all rows at once.
using NormalisationGroups = std::vector<std::vector<Range>>;

// Those of a Program: what its forward segments compute at once.
NormalisationGroups GroupsOf(const Program& program);

// The whole batch at once: the graph's ops in order, once per step, on synthetic data. With `ages`,
// by layer, ops read weights that are so many updates old (or the first, before there are as many).
Trained TrainDirectly(const Graph& graph, const TrainOptions& options, int64_t steps,
                      const NormalisationGroups& groups = {},
                      const std::vector<LayerAge>& ages = {});

// The input's samples of a step, whole batch.
at::Tensor BatchOf(const Graph& graph, TensorId input, const TrainOptions& options, int64_t step);

}  // namespace heddle
