// DAPPLE's planner (Fan et al., PPoPP 2021): stages, replicas and their placement on nodes with
// several devices, for the shortest synchronous iteration by its own estimate.
//
//   length = (M − 1) · block                       steady: the slowest stage or transfer
//          + total / (groups · M) + Σ transfers    warm-up and ending: a microbatch goes all the
//          way
//          + max over stages i of (all-reduce_i − i · block, 0)
//
// where M = batch / (groups · microbatch), block = pivot / M, and `groups` is the number of
// replicas that work on a microbatch side by side. A later stage's all-reduce hides behind the
// backwards of the stages before it, i blocks of them.
//
// What it tries, as its code does:
//   straight   s stages of n / s devices each, s in {2, n} there, in every divisor of n here
//              (groups = n / s); dynamic program over states and places for the smallest pivot;
//   two        two stages on any two numbers of devices (groups = 1), all cuts and placements;
//   one        all devices replicate the model.
// (Its code has a third program, over stages of unequal size. As it compares pivots without
// all-reduce, one stage on all devices, the mean, always wins there: it is `one`.)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/baseline/cut_states.h"
#include "plan/baseline/node_placement.h"

namespace heddle {

// Bytes per second.
struct DappleNetwork {
  double point_to_point = 1e9;  // between nodes
  double collective = 3e9;      // among nodes
  double local = 25e9;          // inside a node

  // Inside a node n devices sum over n / 2 links at once, as NVLink lets eight V100s.
  bool many_local_links = true;
  // The published estimate also counts the first layer of the next stage when it sums a stage's
  // gradients (an index that is taken as included).
  bool counts_next_state = true;
};

struct DappleStage {
  int begin = 0;  // states begin .. end - 1, as cut_states.h counts them
  int end = 0;
  NodeCounts devices;

  auto operator<=>(const DappleStage&) const = default;
};

struct DappleDecision {
  std::string family;  // straight, two or one
  std::vector<DappleStage> stages;
  int groups = 1;
  int64_t microbatches = 1;
  double pivot = 0;    // seconds per global batch of the slowest stage or transfer
  double speedup = 0;  // over one device, by the estimate above
};

// Seconds of a transfer of `bytes` in all, and of a sum of gradients.
double DappleTransfer(const DappleNetwork& network, const NodeCounts& from, const NodeCounts& to,
                      double bytes);
double DappleAllReduce(const DappleNetwork& network, const NodeCounts& devices, double bytes);

// By number of stages.
using StraightPipelines = std::map<int, std::optional<DappleDecision>>;

struct DappleInput {
  const CutStates* states;  // seconds and bytes of one global batch
  NodeCounts nodes;         // devices of each
  DappleNetwork network;
  // Given: remembers those found, which do not depend on the microbatch. Searches of the same
  // states may share it.
  StraightPipelines* straight = nullptr;
};

// 0 when there is no microbatch.
double DappleSpeedup(const DappleInput& input, const DappleDecision& decision);

// The best of each family (of straight: for each number of stages), the fastest first. M is
// batch / (groups · microbatch).
std::vector<DappleDecision> SearchDapple(const DappleInput& input, int64_t batch,
                                         int64_t microbatch);

}  // namespace heddle
