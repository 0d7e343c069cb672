// SPMD plans on tiny models, and the question whether they equal one device.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

inline Plan PlanWith(SpmdPlan spmd, const Graph& graph) {
  Plan plan;
  plan.strategy = "spmd";
  plan.batch = graph.batch();
  plan.bucket = Bytes{1024};
  plan.spmd = std::move(spmd);
  return plan;
}

// Lowered, printed and parsed again, checked.
inline Program Lowered(const SpmdPlan& spmd, const Graph& graph, const std::string& what) {
  Result<Program> program = LowerPlan(PlanWith(spmd, graph), graph);
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

inline void ExpectSpmdParity(const SpmdPlan& spmd, const Graph& graph, const std::string& what) {
  const Program program = Lowered(spmd, graph, what);
  if (testing::Test::HasFailure()) return;
  const Result<Verification> verification = VerifyProgram(program, graph, {});
  ASSERT_TRUE(verification.ok()) << what << ": " << verification.error().ToString();
  EXPECT_TRUE(verification.value().ok) << what << ": " << verification.value().worst;
}

}  // namespace heddle
