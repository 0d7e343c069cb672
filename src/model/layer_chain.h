// LayerChain: the graph as a line of layers, for pipelines.
//
// A cut after layer l separates layers 0..l from l+1..L-1. What crosses it forward are the tensors
// made before and read after (a skip connection crosses every cut between its ends: each stage
// passes it on), and backward the gradients made after and read before.
//
//       layer 0      layer 1      layer 2            x0 crosses cuts 0 and 1
//         x0 ──┬──────  x1  ──────── +               x1 crosses cut 1
//              └─────────────────────┘
//
//   const LayerChain chain = ChainOf(graph);
//   chain.cuts[l].forward_bytes        // of one sample
#pragma once

#include <vector>

#include "model/graph.h"

namespace heddle {

struct ChainLayer {
  std::vector<OpId> forward;          // in topological order
  std::vector<OpId> backward;         // both parts, in the order autodiff wrote them
  std::vector<OpId> backward_input;   //
  std::vector<OpId> backward_weight;  //
  std::vector<int32_t> parameters;    // indices into graph.parameters()
};

struct Cut {
  std::vector<TensorId> forward;   // ascending ids
  std::vector<TensorId> backward;  // ascending ids
  Bytes forward_bytes;             // of one sample
  Bytes backward_bytes;
};

struct LayerChain {
  std::vector<ChainLayer> layers;
  std::vector<Cut> cuts;  // cuts[l] lies after layer l; one fewer than layers

  int size() const { return static_cast<int>(layers.size()); }
};

LayerChain ChainOf(const Graph& graph);

}  // namespace heddle
