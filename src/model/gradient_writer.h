// GradientWriter: appends backward ops to a graph under construction, and keeps account of which
// tensor holds the gradient of which. The rules (gradient_rules.h) say what to write for each op.
#pragma once

#include <string>
#include <vector>

#include "model/graph_builder.h"

namespace heddle {

class GradientWriter {
 public:
  explicit GradientWriter(GraphBuilder& builder);

  // Invalid when nothing that matters depends on the tensor.
  TensorId GradientOf(TensorId tensor) const;
  bool IsParameter(TensorId id) const { return g_.tensor(id).role == Role::kParameter; }
  bool NeedsGradient(TensorId id) const;
  const Tensor& tensor(TensorId id) const { return g_.tensor(id); }

  // Emits an op whose one output is (a contribution to) the gradient of `target`.
  void Contribute(const Op& op, OpKind kind, const std::string& suffix,
                  const std::string& signature, const std::vector<TensorId>& inputs,
                  TensorId target, const OpAttributes& attributes = {});

  // Passes a gradient on unchanged (residual additions).
  void PassThrough(const Op& op, const std::string& suffix, TensorId target, TensorId gradient);

  // Emits an op of the backward pass whose outputs are nobody's gradient.
  std::vector<TensorId> AddIntermediate(const Op& op, OpKind kind, const std::string& suffix,
                                        const std::string& signature,
                                        const std::vector<TensorId>& inputs,
                                        const std::vector<std::string>& outputs,
                                        const OpAttributes& attributes = {});

 private:
  void Accumulate(const Op& op, const std::string& suffix, TensorId target, TensorId gradient);
  TensorId WeightGradient(TensorId parameter);

  GraphBuilder& g_;
  std::vector<TensorId> gradients_;  // by forward tensor
  std::vector<bool> constant_;       // by forward tensor: training does not change it
  int sums_ = 0;
};

}  // namespace heddle
