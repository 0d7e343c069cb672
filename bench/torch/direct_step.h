// Training steps written directly in libtorch, with autograd and its optimizer: what ours is
// measured against.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/adam.h>

#include <memory>
#include <string>
#include <vector>

#include "model/graph.h"
#include "run/data/data_source.h"

namespace heddle {

// A GPT or BERT of the zoo, as one would write it by hand: linear layers with fused bias, softmax
// attention, the library's normalisation and loss. The same data and sizes as the graph's.
class DirectTransformer {
 public:
  DirectTransformer(const Graph& graph, const DataSource& data, int64_t layers, int64_t heads,
                    bool gpt);

  // One step of Adam; returns the loss.
  double Step(int64_t step);

 private:
  at::Tensor Parameter(const std::string& name) const;
  at::Tensor Input(const std::string& name, int64_t step) const;
  at::Tensor Linear(const std::string& name, const at::Tensor& x) const;
  at::Tensor Norm(const std::string& name, const at::Tensor& x) const;
  at::Tensor Attend(const std::string& name, const at::Tensor& x) const;
  at::Tensor Loss(int64_t step) const;

  const Graph& g_;
  const DataSource& data_;
  int64_t layers_, heads_;
  bool gpt_;
  std::vector<at::Tensor> leaves_;  // by parameter
  std::unique_ptr<torch::optim::Adam> optimizer_;
};

}  // namespace heddle
