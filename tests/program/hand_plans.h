// Plans written by hand for the tests of lowering, and what becomes of them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mutant.h"
#include "program/lower/lower.h"
#include "program/plan/plan.h"

namespace heddle {

// "F*2 (F B)*6 B*2" and so on; stage 0 is the first of `stages`.
inline std::string OneForwardOneBackward(int stage, int stages, int microbatches) {
  const int warm = std::min(microbatches, stages - 1 - stage);
  std::string text = warm > 0 ? fmt::format("F*{} ", warm) : "";
  if (microbatches > warm) text += fmt::format("(F B)*{} ", microbatches - warm);
  return text + (warm > 0 ? fmt::format("B*{}", warm) : "");
}

// All forward, then all backward; the chunks of a stage one after the other.
inline std::string Gpipe(int microbatches, int chunks = 1) {
  std::string text;
  for (int c = 0; c < chunks; ++c) text += fmt::format("F.{}*{} ", c, microbatches);
  for (int c = chunks; c-- > 0;) text += fmt::format("B.{}*{} ", c, microbatches);
  return text;
}

// A stage on as many devices as it has shares. Devices are named by SetDevices.
inline StagePlan StageOf(std::vector<LayerRun> chunks, std::vector<double> shares,
                         const std::string& order, bool recompute = false) {
  StagePlan stage;
  stage.chunks = std::move(chunks);
  stage.shares = std::move(shares);
  stage.order = ParseOrder(order, "order").value();
  stage.recompute = recompute;
  return stage;
}

inline Plan PlanOf(int64_t batch, int64_t microbatches, std::vector<PipelinePlan> pipelines) {
  Plan plan;
  plan.strategy = "test";
  plan.request.batch = batch;
  plan.microbatches = microbatches;
  plan.pipelines = std::move(pipelines);
  int device = 0;
  for (PipelinePlan& pipeline : plan.pipelines) {
    for (StagePlan& stage : pipeline.stages) {
      for (size_t k = 0; k < stage.shares.size(); ++k) {
        stage.devices.push_back(fmt::format("a:{}", device++));
      }
    }
  }
  return plan;
}

// What is wrong with the Program of a plan: the first error, or all findings; "" when it is good.
inline std::string FaultsOf(const Plan& plan, const Graph& graph) {
  const Status valid = ValidatePlan(plan, static_cast<int>(graph.layers().size()), "plan");
  if (!valid.ok()) return "invalid: " + valid.error().ToString();
  const Result<Program> program = LowerPlan(plan, graph);
  if (!program.ok()) return "not lowered: " + program.error().ToString();
  const std::string text = PrintProgram(program.value());
  const Result<Program> again = ParseProgram(text, "lowered");
  if (!again.ok()) return "not parsed: " + again.error().ToString();
  if (PrintProgram(again.value()) != text) return "parse after print is not the identity";
  return FindingsOf(CheckProgram(program.value(), {&graph, {}}));
}

// The instructions of one device, a line each.
inline std::string ListOf(const Program& program, size_t device) {
  std::string text;
  const DeviceProgram& d = program.devices[device];
  for (const Instruction& in : d.list(Section::kBody)) {
    text += PrintInstruction(program, d, in) + "\n";
  }
  return text;
}

}  // namespace heddle
