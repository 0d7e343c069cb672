// Throughput: what a plan gets done per second and device, and how much of the devices' peak it
// uses for that.
//
//   const Throughput t = ThroughputOf(plan, graph, cluster, simulation.iteration).value();
//   ThroughputText(t)  ->  "1,840 tokens/s per device (14.4 samples/s), MFU 41.2%, HFU 54.9%"
//
// MFU, model FLOPs utilization (Chowdhery et al. 2022, PaLM, appendix B):
//   model FLOPs of a batch / (seconds of a batch * sum of the peaks of the devices used)
// Model FLOPs are those of products alone (matrices, convolutions, attention), two for each
// multiplication with its addition, forward and both halves of backward once per sample, as
// Narayanan et al. 2021 (Megatron-LM) count: of a GPT with l blocks of width h, s positions, V
// words and batch B they are 72 B s l h² (1 + s/6h) + 6 B s h V. Attention counts all pairs of
// positions, masked or not, and its backward twice its forward: that a kernel computes its scores
// again to save memory is no work of the model. Updates do not count. HFU, hardware FLOPs
// utilization, adds the forwards that stages run again for their activations. Where all blocks are
// it has 96 for 72: 96 B s l h² (1 + s/6h + V/16lh), what Megatron-LM reports. A peak is what the
// cluster's file states as flops of the plan's dtype (docs/cluster.md). Under LocalSGD a batch is
// what one local update sees.
#pragma once

#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "base/result.h"
#include "cluster/cluster.h"
#include "model/graph.h"
#include "program/plan/plan.h"
#include "program/program.h"

namespace heddle {

struct Throughput {
  double samples = 0;              // per second and device used
  std::optional<double> tokens;    // the same; nothing: its samples are no sequences
  std::optional<double> mfu, hfu;  // nothing: a layer profile has times but no FLOPs

  bool computes_again() const { return mfu && *hfu > *mfu * (1 + 1e-9); }
};

// Products of one training step of the whole batch. Nothing where ops are opaque.
std::optional<Flops> ModelFlops(const Graph& graph);

// Forwards that the devices run again in one iteration.
Flops RecomputedFlops(const Program& program, const Graph& graph);

// Positions of a sample: of the sequence that is embedded last, an encoder-decoder's target.
std::optional<int64_t> TokensPerSample(const Graph& graph);

// If an iteration takes so long. Lowers plans that compute layers again, to count them.
// REQUIRES: the plan is of this graph and cluster.
Result<Throughput> ThroughputOf(const Plan& plan, const Graph& graph, const Cluster& cluster,
                                Seconds iteration);

// "1,840", "38.6", "0.0123"
std::string RateText(double per_second);
// "41.2%"; "–" for nothing
std::string UtilizationText(const std::optional<double>& utilization);
std::string ThroughputText(const Throughput& throughput);

// Adds samples_per_second_per_device, tokens_per_second_per_device, mfu and hfu, null where
// unknown.
void AddThroughput(const std::optional<Throughput>& throughput, Json& json);

}  // namespace heddle
