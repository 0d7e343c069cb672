// Pieces that the zoo's families share. Parameter names follow the op: "block3.fc1.w",
// "block3.fc1.bias".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/graph_builder.h"

namespace heddle {

// The normal distribution of He et al. 2015, for layers followed by a ReLU.
double HeDeviation(int64_t fan_in);

// Product with a weight, then a bias over the last axes of the result.
TensorId Linear(GraphBuilder& g, const std::string& name, TensorId x, std::string_view signature,
                std::vector<int64_t> weight, std::vector<int64_t> bias, double deviation = 0.02);

TensorId Norm(GraphBuilder& g, const std::string& name, TensorId x, int64_t hidden,
              double epsilon = 1e-5);

struct BlockOptions {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t wide = 0;         // of the feed-forward layer; 0: 4 * hidden
  bool causal = false;      //
  bool relu = false;        // instead of GELU
  bool norm_after = false;  // norm(x + f(x)) instead of x + f(norm(x))
  double dropout = 0;       // of what is added to the residual
  double epsilon = 1e-5;    //
  int64_t experts = 0;      // a mixture of experts instead of the feed-forward layer
  int64_t capacity = 0;     // slots per expert and sequence

  int64_t width() const { return wide > 0 ? wide : 4 * hidden; }
};

Status CheckHeads(int64_t hidden, int64_t heads);

// Self-attention and a feed-forward layer (or experts), each with a residual around it.
TensorId TransformerBlock(GraphBuilder& g, const std::string& name, TensorId x,
                          const BlockOptions& options);

// The same with attention to `context` [b, s, hidden] between the two.
TensorId DecoderBlock(GraphBuilder& g, const std::string& name, TensorId x, TensorId context,
                      const BlockOptions& options);

}  // namespace heddle
