// SPMD plans on tiny models, and the question whether they equal one device.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/autodiff.h"
#include "model/graph_builder.h"
#include "model/zoo.h"
#include "program/check/check.h"
#include "program/lower/lower.h"
#include "program/spmd_plans.h"
#include "program/text/program_text.h"
#include "run/torch/verify.h"

namespace heddle {

inline Graph Tiny(const std::string& model, int64_t batch, Optimizer optimizer = Optimizer::kAdam,
                  double clip = 0.1) {
  return BuildModel(model, {batch, DType::kF64, optimizer, clip}).value();
}

inline Plan PlanWith(SpmdPlan spmd, const Graph& graph, int64_t microbatches = 1) {
  Plan plan;
  plan.strategy = "spmd";
  plan.request.batch = graph.batch();
  plan.microbatches = microbatches;
  plan.bucket = Bytes{1024};
  plan.spmd = std::move(spmd);
  return plan;
}

// Lowered, printed and parsed again, checked.
inline Program Lowered(const SpmdPlan& spmd, const Graph& graph, const std::string& what,
                       int64_t microbatches = 1) {
  Result<Program> program = LowerPlan(PlanWith(spmd, graph, microbatches), graph);
  EXPECT_TRUE(program.ok()) << what << ": " << program.error().ToString();
  if (!program.ok()) return {};
  const std::string text = PrintProgram(program.value());
  const Result<Program> again = ParseProgram(text, "lowered");
  EXPECT_TRUE(again.ok()) << what << ": " << again.error().ToString();
  EXPECT_EQ(PrintProgram(again.value()), text) << what;
  const Verdict verdict = CheckProgram(program.value(), {&graph, {}});
  EXPECT_TRUE(verdict.ok()) << what << ": " << verdict.findings[0].message;
  return std::move(program).value();
}

inline void ExpectSpmdParity(const SpmdPlan& spmd, const Graph& graph, const std::string& what,
                             int64_t microbatches = 1) {
  const Program program = Lowered(spmd, graph, what, microbatches);
  if (testing::Test::HasFailure()) return;
  for (const int64_t steps : {1, 3}) {
    VerifyOptions options;
    options.steps = steps;
    const Result<Verification> verification = VerifyProgram(program, graph, options);
    ASSERT_TRUE(verification.ok()) << what << ": " << verification.error().ToString();
    EXPECT_TRUE(verification.value().ok)
        << what << " after " << steps << ": " << verification.value().worst;
  }
}

// Tokens with positions (a parameter that is broadcast along the samples), a normalisation whose
// weights start anywhere, dropout, clipping.
inline Graph BroadcastModel(int64_t batch) {
  constexpr int64_t kWords = 12, kPositions = 4, kHidden = 6, kWide = 10;
  GraphBuilder g(batch, DType::kF64);
  const TensorId tokens = g.Input("tokens", DType::kI64, {kPositions});
  g.BeginLayer("embed");
  TensorId x = g.Embedding("words", tokens, g.Parameter("table", {kWords, kHidden}, 0, 0.5));
  x = g.BiasAdd("place", "bsh,sh->bsh", x, g.Parameter("positions", {kPositions, kHidden}, 0, 0.5));
  x = g.Dropout("drop", x, 0.2);
  g.BeginLayer("norm");
  x = g.LayerNorm("ln", x, g.Parameter("ln.scale", {kHidden}, 1.3, 0.4),
                  g.Parameter("ln.shift", {kHidden}, -0.2, 0.3));
  g.BeginLayer("wide");
  x = g.Einsum("fc1", "bsh,hf->bsf", x, g.Parameter("fc1.w", {kHidden, kWide}, 0, 0.4));
  x = g.Gelu("gelu", g.BiasAdd("fc1.add", "bsf,f->bsf", x, g.Parameter("fc1.bias", {kWide}, 0, 1)));
  g.BeginLayer("out");
  x = g.Einsum("fc2", "bsf,fv->bsv", x, g.Parameter("fc2.w", {kWide, kWords}, 0, 0.4));
  g.CrossEntropy("xent", x, g.Input("targets", DType::kI64, {kPositions}));
  AddTraining(g, {Optimizer::kAdam, 0.1});
  return g.Finish().value();
}

// Samples divided among three devices, in other parts in every other layer.
inline SpmdPlan ChangingRatios(const Graph& graph) {
  SpmdPlanMaker maker(graph, FlatMesh(3), {{{{1.0}}, {{0.5, 0.3, 0.2}, {0.1, 0.2, 0.7}}}});
  maker.Store([](const Tensor&) { return kEverywhere; });
  return maker.Make([](const Op& op) {
    OpRule rule{};
    if (op.IndexOf('b') == std::string::npos) return rule;
    rule[1].letter = 'b';
    rule[1].ratios = op.layer.value % 2 == 0 ? int8_t{0} : int8_t{1};
    return rule;
  });
}

}  // namespace heddle
