// A Graph that breaks one of its invariants is refused, and the message names the op or tensor.
#include "model/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/zoo.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// What Graph::Make takes, to be broken.
struct Parts {
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<Parameter> parameters;
  std::vector<std::string> layers;

  Op& op(const std::string& name) {
    for (Op& candidate : ops) {
      if (candidate.name == name) return candidate;
    }
    ADD_FAILURE() << "no op " << name;
    return ops[0];
  }
};

template <class Edit>
std::string ErrorAfter(Edit edit) {
  const Graph good = BuildModel("mlp?layers=3&inputs=4&hidden=5&outputs=6", {.batch = 2}).value();
  Parts parts{good.tensors(), good.ops(), good.parameters(), good.layers()};
  edit(parts);
  const Result<Graph> graph =
      Graph::Make(parts.tensors, parts.ops, parts.parameters, parts.layers, good.batch());
  return graph.ok() ? "" : graph.error().ToString();
}

TEST(GraphTest, AGoodGraphIsTaken) {
  EXPECT_EQ(ErrorAfter([](Parts&) {}), "");
}

TEST(GraphTest, Names) {
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.tensors[1].name = p.tensors[0].name; }),
              HasSubstr("model: x: two tensors have this name"));
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.tensors[0].name = "a b"; }),
              HasSubstr("a b: not a valid tensor name"));
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.op("fc1").name = "fc0"; }),
              HasSubstr("fc0: two ops have this name"));
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.op("fc1").name = "1fc"; }),
              HasSubstr("1fc: not a valid op name"));
}

TEST(GraphTest, Shapes) {
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.tensors[0].shape[1] = 9; }),
              HasSubstr("fc0: axis 1 of x does not match its letter 'k'"));
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.op("fc1").inputs[0].letters = "b"; }),
              HasSubstr("fc1: fc0.gelu.y has 2 axes, the op names 1"));
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.tensors[0].per_sample = false; }),
              HasSubstr("'b' must be the sample axis of x"));
}

TEST(GraphTest, Order) {
  EXPECT_THAT(ErrorAfter([](Parts& p) { std::swap(p.op("fc1"), p.op("fc0")); }),
              HasSubstr("fc1: fc0.gelu.y is read before it is written"));
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.op("fc0.gelu").layer = LayerId{2}; }),
              HasSubstr("fc1: fc0.gelu.y comes from a later layer"));
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.op("fc1").layer = LayerId{3}; }),
              HasSubstr("fc1: belongs to no layer"));
}

TEST(GraphTest, WrittenOnce) {
  EXPECT_THAT(ErrorAfter([](Parts& p) {
                p.op("fc1").outputs[0].tensor = p.op("fc0.gelu").outputs[0].tensor;
              }),
              HasSubstr("fc1: fc0.gelu.y is written twice"));
}

TEST(GraphTest, Parameters) {
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.parameters.pop_back(); }),
              HasSubstr("parameters: one is not listed"));
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.parameters[0].gradient = {}; }),
              HasSubstr("fc0.w: has no gradient"));
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.parameters[0].layers.clear(); }),
              HasSubstr("fc0.w: is used by no layer"));
  EXPECT_THAT(ErrorAfter([](Parts& p) { p.ops.pop_back(); }),
              HasSubstr("fc2.bias: must have exactly one update"));
}

}  // namespace
}  // namespace heddle
