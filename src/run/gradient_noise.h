// Gradient noise: how much of an update's gradient is chance, seen from the outside.
//
// Two updates in a row see other samples at almost the same weights. What they share is the
// gradient, what they do not is noise: of g and h,
//
//   E g·h ≈ ‖∇f‖²          E (‖g‖² + ‖h‖²)/2 ≈ ‖∇f‖² + noise          ratio = noise / ‖∇f‖²
//
// (McCandlish et al. 2018 call ratio times the batch the noise scale.) Weights move between the
// two, so the ratio is a little too large, the more the larger the rate.
//
//   NoiseMeter meter(program, rank, executor);       an executor that looks at gradients on the way
//   …
//   EstimateNoise(meter.pairs())                     of all ranks, summed pair by pair
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/graph.h"
#include "program/program.h"
#include "run/data/data_source.h"
#include "run/rank_messages.h"
#include "run/wrapped_executor.h"

namespace heddle {

// Of two updates in a row.
struct GradientPair {
  double shared = 0;  // g·h
  double square = 0;  // (‖g‖² + ‖h‖²)/2
};

struct NoiseEstimate {
  double ratio = 0;
  double low = 0, high = 0;  // 95%; high is infinite where the gradient is not told from none
  int64_t pairs = 0;
};

// The interval is Student's over ten stretches of the run, each left out in turn (a jackknife).
// Nothing from fewer than twenty pairs.
std::optional<NoiseEstimate> EstimateNoise(const std::vector<GradientPair>& pairs);

// Counts the parameters that no device of a lower number updates too.
class NoiseMeter : public WrappedExecutor {
 public:
  NoiseMeter(const Program& program, int32_t device, Executor& inner);

  void Compute(const Instruction& compute, int64_t i) override;
  const std::vector<GradientPair>& pairs() const { return pairs_; }

 private:
  void See(const BufferRef& ref, int64_t i);

  const Program& program_;
  std::unordered_set<int32_t> others_;  // parameters that others count
  struct Seen {
    std::vector<double> gradient;  // of the last update
    size_t updates = 0;
  };
  std::map<std::pair<int32_t, int32_t>, Seen> seen_;  // by tensor and replica
  std::vector<GradientPair> pairs_;
};

// What all ranks saw, at the first one; nothing at the others, or from too few updates.
std::optional<NoiseEstimate> GatherNoise(const NoiseMeter& meter, RankMessages& messages);

// Samples of an epoch for each parameter; 0 if there is no end of them.
double RowsPerParameter(const Graph& graph, const DataSource& data);

}  // namespace heddle
