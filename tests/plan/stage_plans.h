// Pipelines whose stages have bodies, for tests: a program of the whole model on each stage's mesh,
// cut into the stages.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/layer_chain.h"
#include "plan/stage_split.h"
#include "program/plan/work_times.h"
#include "program/spmd_plans.h"

namespace heddle {

using MeshNames = std::vector<std::vector<std::string>>;
using MeshRatios = std::array<std::vector<std::vector<double>>, kMeshAxes>;

// rows x columns devices, named by row: "<name>0:0", "<name>0:1", …
inline MeshNames NamedMesh(const std::string& name, size_t rows, size_t columns) {
  MeshNames mesh(rows);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      mesh[r].push_back(name + std::to_string(r) + ":" + std::to_string(c));
    }
  }
  return mesh;
}

// As many microbatches in flight as there are stages to come.
inline WorkOrder StraightOrder(size_t stages, size_t stage, int32_t microbatches) {
  WorkOrder order;
  int32_t forward = 0;
  for (int32_t backward = 0; backward < microbatches; ++backward) {
    const auto ahead = static_cast<int32_t>(stages - stage);
    while (forward < std::min(microbatches, backward + ahead)) {
      order.push_back({WorkKind::kForward, 0, forward++});
    }
    order.push_back({WorkKind::kBackward, 0, backward});
  }
  return order;
}

// Samples divided between the rows, anything else but samples and positions inside them: whatever
// needs the least exchange for weights that are stored as `layout_of` says.
inline SpmdPlan RowsAndColumns(const Graph& graph, const MeshNames& mesh, MeshRatios ratios,
                               const std::function<Layout(const Tensor&)>& layout_of) {
  SpmdPlanMaker maker(graph, mesh, std::move(ratios));
  maker.Store(layout_of);
  return maker.Make([&](const Op& op) {
    const bool samples = mesh.size() > 1 && op.IndexOf('b') != std::string::npos;
    OpRule best{};
    double least = SpmdPlanMaker::kImpossible;
    for (const OpRule& rule : maker.RulesFor(op, {"", "bs"})) {
      if (samples != (rule[0].letter == 'b') || (!samples && rule[0].letter != 0)) continue;
      const double cost = maker.CostOf(op, rule) - (rule[1].letter != 0 ? 0.5 : 0);
      if (cost >= least) continue;
      least = cost;
      best = rule;
    }
    HEDDLE_CHECK(least < SpmdPlanMaker::kImpossible);
    return best;
  });
}

struct TestStage {
  std::vector<LayerRun> chunks;
  SpmdPlan program;
  std::vector<int32_t> again = {};
  WorkOrder order = {};  // empty: 1F1B
};

inline Plan StagesPlan(const Graph& graph, const std::vector<TestStage>& stages,
                       int64_t microbatches) {
  std::vector<StageCut> cuts;
  for (const TestStage& stage : stages) {
    cuts.push_back({stage.chunks, &stage.program, stage.program.mesh, stage.again});
  }
  std::vector<StageBody> bodies = SplitProgram(graph, ChainOf(graph), cuts);
  Plan plan;
  plan.strategy = "hand";
  plan.request.batch = graph.batch();
  plan.microbatches = microbatches;
  plan.bucket = Bytes{1024};
  plan.pipelines.emplace_back();
  for (size_t s = 0; s < stages.size(); ++s) {
    StagePlan& stage = plan.pipelines[0].stages.emplace_back();
    stage.chunks = stages[s].chunks;
    stage.devices = DevicesOf(bodies[s].program);
    stage.order = stages[s].order.empty()
                      ? StraightOrder(stages.size(), s, static_cast<int32_t>(microbatches))
                      : stages[s].order;
    stage.body = std::move(bodies[s]);
  }
  return plan;
}

}  // namespace heddle
