// What autodiff makes of random graphs.
#include "random_graph.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "model/layer_chain.h"

namespace heddle {
namespace {

Graph Arbitrary() {
  std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
  const auto optimizer = *rc::gen::elementOf(std::vector(kOptimizers.begin(), kOptimizers.end()));
  const double clip = *rc::gen::element(0.0, 1.0);
  return RandomGraph(random, {.batch = 3, .optimizer = optimizer, .clip = clip}).Make();
}

// Checked here again, without what Graph::Make knows.
RC_GTEST_PROP(RandomGraphProperty, EveryInputIsWrittenBefore, ()) {
  const Graph graph = Arbitrary();
  std::set<TensorId> written;
  for (const Op& op : graph.ops()) {
    for (const Operand& input : op.inputs) {
      const Role role = graph.tensor(input.tensor).role;
      const bool given = role == Role::kInput || role == Role::kParameter || role == Role::kState;
      RC_ASSERT(given || written.contains(input.tensor));
    }
    for (const Operand& output : op.outputs) written.insert(output.tensor);
  }
}

RC_GTEST_PROP(RandomGraphProperty, EveryParameterLearns, ()) {
  const Graph graph = Arbitrary();
  std::map<TensorId, int> writers;
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::kBackwardWeight) continue;
    RC_ASSERT(op.outputs.size() == 1U);
    ++writers[op.outputs[0].tensor];
  }
  RC_ASSERT(writers.size() == graph.parameters().size());
  for (const Parameter& p : graph.parameters()) {
    RC_ASSERT(writers.at(p.gradient) >= 1);
    RC_ASSERT(graph.tensor(p.gradient).shape == graph.tensor(p.tensor).shape);
    RC_ASSERT(p.square.valid() == graph.clip_norm().valid());
  }
}

// d.<name> is like <name>.
RC_GTEST_PROP(RandomGraphProperty, GradientsAreLikeTheirValues, ()) {
  const Graph graph = Arbitrary();
  int compared = 0;
  for (const Tensor& gradient : graph.tensors()) {
    if (gradient.role != Role::kGradient) continue;
    const auto value = graph.FindTensor(gradient.name.substr(2));
    if (!value) continue;
    ++compared;
    RC_ASSERT(graph.tensor(*value).shape == gradient.shape);
    RC_ASSERT(graph.tensor(*value).per_sample == gradient.per_sample);
    RC_ASSERT(graph.tensor(*value).role == Role::kActivation);
  }
  RC_ASSERT(compared > 0);
}

// A gradient that nobody reads would be work for nothing; so would a second sum of one tensor.
RC_GTEST_PROP(RandomGraphProperty, EveryGradientIsRead, ()) {
  const Graph graph = Arbitrary();
  std::set<TensorId> read;
  for (const Op& op : graph.ops()) {
    for (const Operand& input : op.inputs) read.insert(input.tensor);
  }
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::kBackwardInput && op.phase != Phase::kBackwardWeight) continue;
    for (const Operand& output : op.outputs) RC_ASSERT(read.contains(output.tensor));
  }
}

// Work and traffic of a part of the samples: all parts together do the work of the whole, and read
// weights once each.
RC_GTEST_PROP(RandomGraphProperty, WorkFollowsTheRows, ()) {
  const Graph graph = Arbitrary();
  for (const Op& op : graph.ops()) {
    const bool rows = op.work.find('b') != std::string::npos;
    const double whole = FlopsOf(op, op.extents).value;
    const double one = FlopsOf(op, ExtentsForRows(op, 1)).value;
    RC_ASSERT(whole == (rows ? 3 * one : one));
    const Bytes traffic = TrafficOf(graph, op, op.extents);
    const Bytes part = TrafficOf(graph, op, ExtentsForRows(op, 1));
    RC_ASSERT(part <= traffic);
    RC_ASSERT(part * 3 >= traffic);
  }
}

// Each op of the step belongs to one layer and one part of it.
RC_GTEST_PROP(RandomGraphProperty, LayersHoldAllOps, ()) {
  const Graph graph = Arbitrary();
  const LayerChain chain = ChainOf(graph);
  std::set<OpId> seen;
  for (const ChainLayer& layer : chain.layers) {
    for (const auto* ops : {&layer.forward, &layer.backward}) {
      for (const OpId id : *ops) RC_ASSERT(seen.insert(id).second);
    }
  }
  const size_t updates = graph.parameters().size() * (graph.clip_norm().valid() ? 2 : 1);
  RC_ASSERT(seen.size() + updates == graph.ops().size());
}

}  // namespace
}  // namespace heddle
