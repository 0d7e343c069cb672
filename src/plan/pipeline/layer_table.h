// LayerTable: what runs of layers cost, ready to be looked up: seconds by device type and number of
// samples, memory, bytes across cuts and of weights. Sums over single layers, made once.
//
//   LayerTable table(planning);
//   const LayerTable::Times& times = table.TimesFor(/*rows=*/4);
//   double seconds = times.Of(type, 0, 12).whole();          // layers 0 to 11, forward and
//   backward
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "plan/pipeline/stage_partition.h"
#include "plan/planning.h"

namespace heddle {

class LayerTable {
 public:
  // Seconds of one microbatch.
  struct Work {
    double forward = 0;
    double input = 0;   // backward with respect to inputs
    double weight = 0;  // and to weights
    double whole() const { return forward + input + weight; }
  };

  // For one number of samples: sums over layers 0..l-1, by type.
  class Times {
   public:
    Work Of(int type, int first, int end) const {
      const std::vector<Work>& sums = sums_[static_cast<size_t>(type)];
      const Work& a = sums[static_cast<size_t>(first)];
      const Work& b = sums[static_cast<size_t>(end)];
      return {b.forward - a.forward, b.input - a.input, b.weight - a.weight};
    }

   private:
    friend class LayerTable;
    std::vector<std::vector<Work>> sums_;
  };

  // Bytes of layers first..end-1 on one device; estimates, near above what the checker will find.
  struct Memory {
    double fixed = 0;       // weights, their gradients and states of the optimizer
    double in_flight = 0;   // of one sample, from its forward to its backward
    double for_weight = 0;  // of one sample, from the input part of its backward to the weight part
    double statistics = 0;  // of one microbatch in flight
    double extra = 0;       // of one sample at work, beyond in_flight
    double extra_fixed = 0;
    double input = 0;     // of one sample, when only the input is kept
    double boundary = 0;  // of one sample that comes or goes meanwhile

    double Peak(double rows, double microbatches, bool recompute) const;
  };

  explicit LayerTable(const Planning& planning);

  const Planning& planning() const { return planning_; }
  int layers() const { return layers_; }
  const Plan& blank() const { return blank_; }         // of the planning; its hashes take time
  const Times& TimesFor(int64_t rows) const;           // safe from several threads
  const LayerSeconds& SecondsFor(int64_t rows) const;  // likewise
  Memory MemoryOf(int first, int end) const;
  double ParameterBytes(int first, int end) const {
    return parameters_[static_cast<size_t>(end)] - parameters_[static_cast<size_t>(first)];
  }
  // Of one sample, across the cut between layers end-1 and end.
  double ForwardBytes(int end) const { return forward_bytes_[static_cast<size_t>(end)]; }
  double BackwardBytes(int end) const { return backward_bytes_[static_cast<size_t>(end)]; }
  // Parameters that several layers use.
  struct Tied {
    std::vector<int> layers;
    double bytes = 0;
  };
  const std::vector<Tied>& tied() const { return tied_; }
  // How fast a device is: 1 / seconds of the whole model for one sample of the full batch.
  double SpeedOf(int type) const { return speeds_[static_cast<size_t>(type)]; }

 private:
  Times MakeTimes(int64_t rows) const;
  void SumMemory();

  const Planning& planning_;
  int layers_;
  Plan blank_;
  std::vector<double> parameters_, forward_bytes_, backward_bytes_, speeds_;
  std::vector<Tied> tied_;
  std::vector<Memory> memory_;                 // sums over layers 0..l-1; extra: of layer l
  std::vector<std::vector<Memory>> extremes_;  // of extra: layers l..l+2^k-1
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::unique_ptr<Times>> times_;
  mutable std::map<int64_t, std::unique_ptr<LayerSeconds>> seconds_;
};

}  // namespace heddle
