// Kernels: every op of the graph on ATen tensors, forward, backward and update alike, without
// autograd. Tensors have the op's local shapes; axes are found by the op's letters.
//
// An op whose table entry says so (op_kind.h: in_place) computes into its input's memory when the
// caller gives that input away: moved in, and held by nobody else.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "model/graph.h"
#include "program/program.h"

namespace heddle {

struct KernelContext {
  int64_t batch = 1;            // samples per update over all devices: losses divide by it
  double learning_rate = 1e-3;  //
  int64_t step = 0;             // of the run
  int64_t update = 0;           // updates of these weights before this one
  uint64_t seed = 1;            // dropout
  int64_t first_sample = 0;     // of the step's batch, the first row here
  // Of a shard: the part that is here of each of the op's letters, all of it otherwise.
  std::span<const Range> parts = {};
  int64_t rows = 0;      // of a shard: samples of all shards together
  bool training = true;  // otherwise nothing is dropped
  at::ScalarType dtype = at::kDouble;
};

// Outputs in the op's order. Updates change their inputs in place and return nothing. An op whose
// table entry says `adds` adds to `sum`, when that is given, and returns an undefined tensor.
std::vector<at::Tensor> RunKernel(const Graph& graph, const Op& op, std::vector<at::Tensor> inputs,
                                  const KernelContext& context, const at::Tensor& sum = {});

}  // namespace heddle
