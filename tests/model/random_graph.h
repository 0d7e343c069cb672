// RandomGraph: small training graphs of images or tokens, every op of them somewhere, with skip
// connections at random. The first layer has weights. The same for the same numbers drawn.
//
//   std::mt19937 random(seed);
//   const Graph graph = RandomGraph(random, {.batch = 4, .clip = 1}).Make();
#pragma once

#include <random>
#include <string>
#include <vector>

#include "model/autodiff.h"
#include "model/graph_builder.h"
#include "model/zoo.h"

namespace heddle {

class RandomGraph {
 public:
  RandomGraph(std::mt19937& random, const ModelOptions& options)
      : random_(random), options_(options), g_(options.batch, options.dtype) {}

  Graph Make() {
    const TensorId logits = Maybe() ? Images() : Tokens();
    const bool per_position = g_.tensor(logits).shape.size() == 3;
    const std::vector<int64_t> shape =
        per_position ? std::vector<int64_t>{kPositions} : std::vector<int64_t>{};
    g_.CrossEntropy("xent", logits, g_.Input("targets", DType::kI64, shape));
    AddTraining(g_, {options_.optimizer, options_.clip});
    return g_.Finish().value();
  }

 private:
  static constexpr int64_t kPositions = 4;
  static constexpr int64_t kHidden = 4;
  static constexpr int64_t kClasses = 5;

  int Upto(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }
  bool Maybe() { return Upto(1) == 1; }
  std::string Next() { return "l" + std::to_string(layer_) + "." + std::to_string(ops_++); }

  void BeginLayer() {
    ++layer_;
    g_.BeginLayer("l" + std::to_string(layer_));
  }

  TensorId Weight(std::vector<int64_t> shape) {
    return g_.Parameter("w" + std::to_string(weights_++), std::move(shape));
  }

  // An earlier tensor that equals `x` in all axes but `free`; x itself when there is none.
  TensorId Earlier(TensorId x, size_t free) {
    std::vector<TensorId> found = {x};
    for (const TensorId other : made_) {
      std::vector<int64_t> a = g_.tensor(x).shape, b = g_.tensor(other).shape;
      if (free < a.size()) a[free] = b[free] = 0;
      if (a == b) found.push_back(other);
    }
    return found[static_cast<size_t>(Upto(static_cast<int>(found.size()) - 1))];
  }

  TensorId Images() {
    TensorId x = g_.Input("x", options_.dtype, {2, 6, 5});
    BeginLayer();
    x = Maybe() ? g_.Conv2d(Next(), x, Weight({2, 2, 2, 2}), {}) : Normalised(x);
    made_.push_back(x);
    for (int l = Upto(4); l > 0; --l) {
      BeginLayer();
      for (int k = Upto(3); k >= 0; --k) x = ImageOp(x);
      made_.push_back(x);
    }
    BeginLayer();
    const TensorId mean = g_.Mean(Next(), x);
    return g_.Einsum(Next(), "bk,kn->bn", mean, Weight({g_.tensor(mean).shape[1], kClasses}));
  }

  TensorId ImageOp(TensorId x) {
    const std::vector<int64_t> shape = g_.tensor(x).shape;
    const int64_t channels = shape[1];
    const bool roomy = shape[2] > 2 && shape[3] > 2;
    switch (Upto(9)) {
      case 0:
        return g_.Conv2d(Next(), x, Weight({1 + Upto(3), channels, 1, 1}), {});
      case 1:
        return g_.Conv2d(Next(), x, Weight({1 + Upto(3), channels, 3, 1}), {0, 0, 1 + Upto(1), 1});
      case 2:
        return g_.MaxPool(Next(), x, roomy ? Window{2, 2, 2} : Window{3, 3, 1, 1, 1});
      case 3:
        return g_.AveragePool(Next(), x, roomy ? Window{3, 2, 2} : Window{3, 3, 1, 1, 1});
      case 4:
        return g_.Concat(Next(), {x, Earlier(x, 1)});
      case 5:
        return g_.Add(Next(), x, Earlier(x, 9));
      case 6:
        return g_.Dropout(Next(), x, 0.5);
      case 7:
        return g_.Relu(Next(), x);
      default:
        return Normalised(x);
    }
  }

  TensorId Normalised(TensorId x) {
    const int64_t channels = g_.tensor(x).shape[1];
    return g_.BatchNorm(Next(), x, Weight({channels}), Weight({channels}));
  }

  TensorId Tokens() {
    TensorId x;
    BeginLayer();
    if (Maybe()) {
      const TensorId image = g_.Input("x", options_.dtype, {3, 3, 1});
      const TensorId features = g_.Conv2d(Next(), image, Weight({kHidden, 3, 1, 1}), {});
      x = g_.ClassToken(Next(), features, Weight({kHidden}));
    } else {
      const TensorId words = g_.Input("tokens", DType::kI64, {kPositions});
      x = g_.Embedding(Next(), words, Weight({7, kHidden}));
    }
    made_.push_back(x);
    for (int l = 1 + Upto(4); l > 0; --l) {
      BeginLayer();
      for (int k = Upto(2); k >= 0; --k) x = TokenOp(x);
      made_.push_back(x);
    }
    BeginLayer();
    if (Maybe()) return g_.Einsum(Next(), "bsh,hv->bsv", x, Weight({kHidden, kClasses}));
    return g_.Einsum(Next(), "bh,hv->bv", g_.SelectFirst(Next(), x), Weight({kHidden, kClasses}));
  }

  TensorId TokenOp(TensorId x) {
    switch (Upto(8)) {
      case 0:
        return g_.Add(Next(), x, Earlier(x, 9));
      case 1:
        return g_.Tanh(Next(), x);
      case 2:
        return g_.Gelu(Next(), x);
      case 3:
        return g_.Dropout(Next(), x, 0.25);
      case 4:
        return g_.LayerNorm(Next(), x, Weight({kHidden}), Weight({kHidden}));
      case 5:
        return SelfAttention(x);
      case 6:
        return ContextAttention(x, Earlier(x, 9));
      default:
        return Experts(x);
    }
  }

  TensorId SelfAttention(TensorId x) {
    const TensorId qkv = g_.Einsum(Next(), "bsh,hcad->bscad", x, Weight({kHidden, 3, 2, 2}));
    const TensorId mixed = g_.Attention(Next(), qkv, Maybe());
    return g_.Einsum(Next(), "bsad,adh->bsh", mixed, Weight({2, 2, kHidden}));
  }

  TensorId ContextAttention(TensorId x, TensorId context) {
    const TensorId q = g_.Einsum(Next(), "bth,had->btad", x, Weight({kHidden, 2, 2}));
    const TensorId kv = g_.Einsum(Next(), "bsh,hcad->bscad", context, Weight({kHidden, 2, 2, 2}));
    const TensorId mixed = g_.CrossAttention(Next(), q, kv);
    return g_.Einsum(Next(), "btad,adh->bth", mixed, Weight({2, 2, kHidden}));
  }

  TensorId Experts(TensorId x) {
    const int64_t experts = 1 + Upto(2);
    const TensorId gate = g_.Einsum(Next(), "bsh,he->bse", x, Weight({kHidden, experts}));
    const TensorId chances = g_.Softmax(Next(), gate);
    const GraphBuilder::Routing routing = g_.Route(Next(), chances, 1 + Upto(2));
    if (Maybe()) g_.BalanceLoss(Next(), chances, routing, 0.01);
    const TensorId sent = g_.Dispatch(Next(), x, routing, experts);
    const TensorId made =
        g_.Einsum(Next(), "bech,ehf->becf", sent, Weight({experts, kHidden, kHidden}));
    return g_.Combine(Next(), made, routing);
  }

  std::mt19937& random_;
  ModelOptions options_;
  GraphBuilder g_;
  std::vector<TensorId> made_;  // at the ends of layers
  int layer_ = -1, ops_ = 0, weights_ = 0;
};

}  // namespace heddle
