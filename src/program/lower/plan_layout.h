// PlanLayout: a plan spread out over devices and layers, before any instruction is written.
//
// Chunks are numbered along the layers whatever stage they are on; each knows its segments and what
// crosses its ends. Parameters know their holders, and with that the gradient buckets follow.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/layer_chain.h"
#include "program/lower/chunk_segments.h"
#include "program/lower/gradient_buckets.h"
#include "program/plan/plan.h"
#include "program/plan/work_times.h"
#include "program/program.h"

namespace heddle {

struct Chunk {
  size_t stage = 0;
  int32_t index = 0;  // among the stage's chunks
  LayerRun layers;
  ChunkSegments segments;
  std::vector<TensorId> in, out;                      // activations across its two ends
  std::vector<TensorId> gradients_in, gradients_out;  // ascending, like all of these
  // Tensors that another chunk of the stage holds too: with skip connections over interleaved
  // stages a device receives a tensor once for each chunk it passes. They get a form of their own,
  // with the index of the chunk that received it.
  std::map<TensorId, int32_t> own_form;
};

struct PipelineLayout {
  const PipelinePlan* plan = nullptr;
  std::vector<Chunk> chunks;                                // along the layers
  std::vector<std::vector<size_t>> chunks_of;               // by stage and chunk index
  std::vector<std::vector<int32_t>> devices;                // numbers in the Program, by stage
  std::vector<std::map<int64_t, std::vector<Range>>> rows;  // by stage: microbatch rows -> ranges
  std::vector<std::set<TensorId>> zeroed;  // by stage: weight gradients that must start as zeros
  WorkTimes times;

  bool Local(size_t chunk, size_t other) const {
    return chunks[chunk].stage == chunks[other].stage;
  }
};

struct PlanLayout {
  LayerChain chain;
  std::vector<int64_t> microbatch_rows;
  std::vector<std::string> device_names;
  std::vector<PipelineLayout> pipelines;
  std::vector<std::vector<int32_t>> held;  // by device: parameters, ascending
  std::vector<GradientBucket> buckets;
  size_t most_crossing = 1;  // tensors across any cut, in one direction
};

// One between every two stages that exchange messages.
void AddChannels(const PipelineLayout& pipeline, Program& program);

// An error if two stages of the only pipeline share a weight. Its gradient would have to be summed
// between them, which have different microbatches at work where nobody waits.
Status CheckNotShared(const Plan& plan, const Graph& graph, const PlanLayout& layout);

// REQUIRES: ValidatePlan(plan) is ok for this graph.
PlanLayout LayOut(const Plan& plan, const Graph& graph);

}  // namespace heddle
