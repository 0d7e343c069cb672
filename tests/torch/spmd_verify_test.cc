// SPMD programs compute what one device would, in fp64: loss, gradients and parameters after three
// steps, with clipping.

#include <gtest/gtest.h>

#include "torch/spmd_fixture.h"

namespace heddle {
namespace {

constexpr char kMlp[] = "tiny-mlp?layers=2";
constexpr char kGpt[] = "tiny-gpt?layers=1&hidden=8&heads=2&seq=4&vocab=12";

TEST(SpmdVerifyTest, DataParallel) {
  const Graph graph = Tiny(kMlp, 6);
  ExpectSpmdParity(DataParallel(graph, FlatMesh(2), {0.5, 0.5}), graph, "even");
  ExpectSpmdParity(DataParallel(graph, FlatMesh(3), {0.5, 0.3, 0.2}), graph, "uneven");
  ExpectSpmdParity(DataParallel(graph, FlatMesh(3), {0.6, 0, 0.4}), graph, "one has nothing");
  const Graph gpt = Tiny(kGpt, 5);
  ExpectSpmdParity(DataParallel(gpt, FlatMesh(3), {0.5, 0.3, 0.2}), gpt, "gpt");
}

}  // namespace
}  // namespace heddle
