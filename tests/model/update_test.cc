// Updates: what each optimizer keeps, and clipping by the norm of all gradients.
#include <gtest/gtest.h>

#include <set>

#include "model/zoo.h"
#include "op_text.h"

namespace heddle {
namespace {

constexpr char kModel[] = "mlp?layers=2&inputs=3&hidden=4&outputs=5";

Graph With(Optimizer optimizer, DType dtype = DType::kF32, double clip = 0) {
  return BuildModel(kModel, {.batch = 2, .dtype = dtype, .optimizer = optimizer, .clip = clip})
      .value();
}

// "fc0.w.m fc0.w.v": the states of the first weight.
std::string StatesOf(const Graph& graph) {
  std::string text;
  for (const TensorId id : graph.parameters()[0].states) {
    const Tensor& state = graph.tensor(id);
    EXPECT_EQ(state.role, Role::kState);
    EXPECT_EQ(state.dtype, DType::kF32) << state.name;
    EXPECT_EQ(state.shape, graph.tensor(graph.parameters()[0].tensor).shape);
    text += (text.empty() ? "" : " ") + state.name;
  }
  return text;
}

std::string UpdateOf(const Graph& graph) {
  const Op& op = OpOf(graph, "fc0.w.update");
  return std::string(InfoOf(op.kind).name) + " " + SignatureOf(op);
}

TEST(UpdateTest, WhatOptimizersKeep) {
  EXPECT_EQ(StatesOf(With(Optimizer::kSgd)), "");
  EXPECT_EQ(StatesOf(With(Optimizer::kMomentum)), "fc0.w.m");
  EXPECT_EQ(StatesOf(With(Optimizer::kAdam)), "fc0.w.m fc0.w.v");
  EXPECT_EQ(StatesOf(With(Optimizer::kAdamW)), "fc0.w.m fc0.w.v");
}

TEST(UpdateTest, LowPrecisionKeepsAMasterCopyToo) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    EXPECT_EQ(StatesOf(With(Optimizer::kSgd, dtype)), "fc0.w.master");
    EXPECT_EQ(StatesOf(With(Optimizer::kMomentum, dtype)), "fc0.w.m fc0.w.master");
    EXPECT_EQ(StatesOf(With(Optimizer::kAdamW, dtype)), "fc0.w.m fc0.w.v fc0.w.master");
  }
  EXPECT_EQ(StatesOf(With(Optimizer::kSgd, DType::kF64)), "");
}

TEST(UpdateTest, OpsReadAndWriteThem) {
  EXPECT_EQ(UpdateOf(With(Optimizer::kSgd)), "sgd kl,kl->kl");
  EXPECT_EQ(UpdateOf(With(Optimizer::kMomentum)), "momentum kl,kl,kl->kl,kl");
  EXPECT_EQ(UpdateOf(With(Optimizer::kAdam)), "adam kl,kl,kl,kl->kl,kl,kl");
  EXPECT_EQ(UpdateOf(With(Optimizer::kAdamW)), "adam kl,kl,kl,kl->kl,kl,kl");
}

TEST(UpdateTest, WorkAndTraffic) {
  EXPECT_EQ(FlopsOf(With(Optimizer::kSgd), "fc0.w.update"), 2 * 12);
  EXPECT_EQ(FlopsOf(With(Optimizer::kMomentum), "fc0.w.update"), 4 * 12);
  EXPECT_EQ(TrafficOf(With(Optimizer::kSgd), "fc0.w.update"), 3 * 4 * 12);
  EXPECT_EQ(TrafficOf(With(Optimizer::kMomentum), "fc0.w.update"), 5 * 4 * 12);
}

// Adam and AdamW are one op; the decay tells them apart.
TEST(UpdateTest, OnlyAdamWDecays) {
  for (const Optimizer optimizer : kOptimizers) {
    const double expected = optimizer == Optimizer::kAdamW ? 0.01 : 0;
    const Graph graph = With(optimizer);
    for (const Parameter& p : graph.parameters()) {
      EXPECT_EQ(graph.op(p.update).attributes.decay, expected) << NameOf(optimizer);
    }
  }
}

TEST(UpdateTest, HashesTellOptimizersApart) {
  std::set<std::string> hashes;
  for (const Optimizer optimizer : kOptimizers) {
    hashes.insert(With(optimizer).ContentHash());
    EXPECT_EQ(ParseChoice<Optimizer>(NameOf(optimizer)), optimizer);
  }
  EXPECT_EQ(hashes.size(), kOptimizers.size());
  EXPECT_EQ(ParseChoice<Optimizer>("lamb"), std::nullopt);
}

TEST(ClipTest, NothingWithoutIt) {
  const Graph graph = With(Optimizer::kAdam);
  EXPECT_FALSE(graph.clip_norm().valid());
  EXPECT_EQ(graph.FindTensor("clip.square"), std::nullopt);
  for (const Parameter& p : graph.parameters()) EXPECT_FALSE(p.square.valid());
  for (const Op& op : graph.ops()) {
    EXPECT_NE(op.kind, OpKind::kSquareSum) << op.name;
    EXPECT_EQ(op.attributes.clip, 0) << op.name;
  }
}

TEST(ClipTest, EveryGradientIsSquaredOnce) {
  for (const char* model : {kModel, "tiny-gpt?layers=2", "tiny-moe?layers=2",
                            "resnet152?blocks1=1&blocks2=1&blocks3=1&blocks4=1&width=2&image=32"}) {
    const Graph graph = BuildModel(model, {.batch = 2, .clip = 1.5}).value();
    std::multiset<TensorId> squared;
    for (const Op& op : graph.ops()) {
      if (op.kind != OpKind::kSquareSum) continue;
      squared.insert(op.inputs[0].tensor);
      EXPECT_EQ(op.phase, Phase::kUpdate);
      ASSERT_EQ(op.outputs.size(), 1U);
      EXPECT_EQ(op.outputs[0].tensor, graph.clip_norm());
    }
    EXPECT_EQ(squared.size(), graph.parameters().size()) << model;
    for (const Parameter& p : graph.parameters()) {
      EXPECT_EQ(squared.count(p.gradient), 1U) << graph.tensor(p.tensor).name;
      EXPECT_EQ(graph.op(p.square).inputs[0].tensor, p.gradient);
      EXPECT_EQ(graph.op(p.square).layer, graph.op(p.update).layer);
    }
  }
}

// All squares are added before the first weight changes.
TEST(ClipTest, UpdatesReadTheNorm) {
  for (const Optimizer optimizer : kOptimizers) {
    const Graph graph = With(optimizer, DType::kBf16, 1.5);
    EXPECT_EQ(TypeOf(graph, "clip.square"), "f32[]");
    EXPECT_EQ(graph.clip_norm(), graph.FindTensor("clip.square"));
    OpId last_square, first_update{INT32_MAX};
    for (const Parameter& p : graph.parameters()) {
      const Op& update = graph.op(p.update);
      EXPECT_EQ(update.inputs.back().tensor, graph.clip_norm()) << update.name;
      EXPECT_EQ(update.inputs.size(), 3 + p.states.size()) << update.name;
      EXPECT_EQ(update.attributes.clip, 1.5) << update.name;
      last_square = std::max(last_square, p.square);
      first_update = std::min(first_update, p.update);
    }
    EXPECT_LT(last_square, first_update);
  }
  EXPECT_EQ(SignatureOf(With(Optimizer::kSgd, DType::kF32, 1), "fc0.w.square"), "kl->");
  EXPECT_EQ(FlopsOf(With(Optimizer::kSgd, DType::kF32, 1), "fc0.w.square"), 2 * 12);
}

// Like a learning rate, the norm changes numbers, not what is done.
TEST(ClipTest, TheHashKnowsThatNotWhere) {
  const std::string none = With(Optimizer::kAdam).ContentHash();
  const std::string one = With(Optimizer::kAdam, DType::kF32, 1).ContentHash();
  EXPECT_NE(one, none);
  EXPECT_EQ(With(Optimizer::kAdam, DType::kF32, 2.5).ContentHash(), one);
}

}  // namespace
}  // namespace heddle
