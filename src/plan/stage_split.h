// A training step as an SPMD program, cut into the stages of a pipeline.
//
//   const std::vector<StageBody> bodies = SplitProgram(graph, chain, {{.chunks = {{0, 3}},
//                                                                      .program = &whole, …}, …});
//
// Every stage takes the ops of its layers from a program of the whole model on its own mesh, and
// the conversions that these need. What it reads and does not make arrives: in the layout in which
// the program has it, or, where that is a partial sum, in the one it is first complete in, so that
// the sum is finished by the stage that made it. Tensors that a stage only passes on arrive as the
// next one wants them.
#pragma once

#include <vector>

#include "model/layer_chain.h"
#include "program/plan/plan.h"

namespace heddle {

struct StageCut {
  std::vector<LayerRun> chunks;
  const SpmdPlan* program = nullptr;  // of the whole model, on a mesh of this stage's shape
  std::vector<std::vector<std::string>> mesh;  // of this stage
  std::vector<int32_t> again;                  // layers to compute again, ascending
};

// REQUIRES: the runs of layers of all stages are those of the chain, each once; CheckSpmdPlan of
// the programs is ok; stages that hold a run of layers on the same devices have one program.
std::vector<StageBody> SplitProgram(const Graph& graph, const LayerChain& chain,
                                    const std::vector<StageCut>& cuts);

}  // namespace heddle
