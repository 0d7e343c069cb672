// GraphOps: the ops of a Graph on whole batches, one at a time, for those who train directly on it.
//
//   const GraphOps ops(graph, GroupsOf(program, graph.batch()));
//   std::vector<at::Tensor> outputs = ops.Run(op, inputs, context);
//
// Batch normalisation over a part of the batch is another function, so statistics are computed by
// group of rows: they are stacked, one per group.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/graph.h"
#include "program/program.h"
#include "run/torch/kernels.h"

namespace heddle {

// By layer: the rows of the batch that are normalised together. Empty: all rows at once.
using NormalisationGroups = std::vector<std::vector<Range>>;

// Those of a Program: what its forward segments compute at once. `batch` is what an update sees:
// where the body has several, rows are counted from the first of each.
NormalisationGroups GroupsOf(const Program& program, int64_t batch);

class GraphOps {
 public:
  // `graph` must outlive this.
  GraphOps(const Graph& graph, NormalisationGroups groups)
      : g_(graph), groups_(std::move(groups)) {}

  std::vector<at::Tensor> Run(const Op& op, const std::vector<at::Tensor>& inputs,
                              const KernelContext& context) const;

 private:
  bool PerGroup(const Operand& operand) const;
  std::vector<at::Tensor> RunInGroups(const Op& op, const std::vector<at::Tensor>& inputs,
                                      const KernelContext& context) const;

  const Graph& g_;
  NormalisationGroups groups_;
};

}  // namespace heddle
