// Reference: plain training on one device, written directly on the Graph. What synchronous Programs
// must equal.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "model/graph.h"
#include "run/torch/torch_executor.h"

namespace heddle {

// What a training run left behind.
struct Trained {
  std::vector<double> losses;                   // by step
  std::map<std::string, at::Tensor> gradients;  // of the last step, by name
  std::map<std::string, at::Tensor> parameters;
};

// The whole batch at once: the graph's ops in order, once per step, on synthetic data.
Trained TrainDirectly(const Graph& graph, const TrainOptions& options, int64_t steps);

// The input's samples of a step, whole batch.
at::Tensor BatchOf(const Graph& graph, TensorId input, const TrainOptions& options, int64_t step);

}  // namespace heddle
