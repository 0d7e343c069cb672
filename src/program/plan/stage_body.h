// StageBody: a stage as a run of layers on a mesh of devices, with a layout for every tensor.
//
// Its program has the steps of these layers alone (spmd_plan.h): for each of the stage's runs of
// layers those of a forward and those of a backward, done for every microbatch when the stage's
// order says so, and after all of them the updates. What other stages make arrives in the layouts
// that the run names, whatever the meshes are: a tensor may come divided and be gathered here.
//
//   stage 0, mesh 2 x 2                        stage 1, mesh 1 x 3
//     forward   fc0 b.n, …, fc0.y -> S0.R   ──►  arrives as R.S1;  fc0.y: R.S1 -> R.R, fc1 …
//     backward  …                           ◄──  …
//     updates   g.fc0.w: P.S1 -> R.S1, fc0.w.update -.l
//
// A replicated stage with shares is the body that divides samples by one ratio vector and nothing
// else. A whole SPMD plan is the body of a pipeline with one stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/graph.h"
#include "program/plan/spmd_plan.h"

namespace heddle {

// A tensor that another run of layers makes, in a layout without partial sums on this mesh.
struct BodyArrival {
  TensorId tensor;
  Layout layout;

  auto operator<=>(const BodyArrival&) const = default;
};

// Of one run of layers: where its steps are among the program's.
struct ChunkSteps {
  std::vector<BodyArrival> arrivals;  // activations of the run before, gradients of the one after
  size_t forward = 0;                 // steps [forward, backward)
  size_t backward = 0;                // steps [backward, end)
  size_t end = 0;
};

struct BodyShape {
  std::vector<ChunkSteps> chunks;  // of the stage, in its order of runs
  size_t updates = 0;              // steps from here on are done once, after all microbatches
  std::vector<int32_t> again;      // layers computed again before their backward, ascending
};

struct StageBody {
  SpmdPlan program;  // storage of the parameters of its layers, in the graph's order
  BodyShape shape;
};

// The body of a pipeline with a single stage: all of the program, updates where they stand.
BodyShape WholeShape(const SpmdPlan& plan, const Graph& graph);

// Devices of the mesh, row by row.
std::vector<std::string> DevicesOf(const SpmdPlan& plan);

// Of the steps [begin, end): the layer that each works for, an op's own, a conversion's that of the
// op after it (where none follows, of the one before; -1: there are no ops).
std::vector<int32_t> LayersOfSteps(const SpmdPlan& plan, size_t begin, size_t end,
                                   const Graph& graph);

}  // namespace heddle
