#include "plan/pipeline/contention.h"

#include <algorithm>

namespace heddle {
namespace {

struct CutWires {
  double latency = 0;
  double forward_bytes = 0, backward_bytes = 0;  // of a microbatch
  ChannelWires wires;
};

std::vector<CutWires> WiresOf(const StageCosts& costs, const std::vector<PartitionStage>& chunks,
                              const std::vector<int>& stage_of) {
  const LayerTable& table = costs.table();
  const auto rows = static_cast<double>(costs.rows());
  std::vector<CutWires> cuts;
  for (size_t k = 1; k < chunks.size(); ++k) {
    CutWires cut;
    if (stage_of[k] != stage_of[k - 1]) {
      const DeviceRange &from = chunks[k - 1].devices, &to = chunks[k].devices;
      cut.latency = costs.ChannelBetween(from, to).latency;
      cut.forward_bytes = rows * table.ForwardBytes(chunks[k].first);
      cut.backward_bytes = rows * table.BackwardBytes(chunks[k].first);
      cut.wires = costs.line().WiresBetween(
          from, costs.RowsOf(chunks[k - 1].first, chunks[k - 1].end, from), to,
          costs.RowsOf(chunks[k].first, chunks[k].end, to));
    }
    cuts.push_back(std::move(cut));
  }
  return cuts;
}

}  // namespace

Contention::Contention(const StageCosts& costs, const std::vector<PartitionStage>& chunks,
                       const std::vector<int>& stage_of, double slowest)
    : period_(slowest) {
  const std::vector<CutWires> cuts = WiresOf(costs, chunks, stage_of);
  std::vector<double> load(costs.table().planning().cluster->wires().size(), 0);
  const auto load_of = [&](WireId wire) -> double& {
    return load[static_cast<size_t>(wire.value)];
  };
  const auto put = [&](const std::vector<WireSeconds>& wires, double bytes) {
    for (const WireSeconds& wire : wires) {
      double& seconds = load_of(wire.wire);
      seconds += wire.per_byte * bytes;
      period_ = std::max(period_, seconds);
    }
  };
  for (const CutWires& cut : cuts) {
    put(cut.wires.forward, cut.forward_bytes);
    put(cut.wires.backward, cut.backward_bytes);
  }
  const auto take = [&](const std::vector<WireSeconds>& wires, double bytes, double latency) {
    double longest = 0;
    for (const WireSeconds& wire : wires) {
      const double own = wire.per_byte * bytes;
      // own / (1 - u); no more than the period, which the wire's load does not exceed.
      const double left = period_ - (load_of(wire.wire) - own);
      if (own > 0) longest = std::max(longest, own * period_ / left);
    }
    return latency + longest;
  };
  for (const CutWires& cut : cuts) {
    cuts_.push_back({take(cut.wires.forward, cut.forward_bytes, cut.latency),
                     take(cut.wires.backward, cut.backward_bytes, cut.latency)});
  }
}

double LastSum(const StageCosts& costs, const std::vector<PartitionStage>& chunks,
               std::vector<StageSum> sums) {
  std::stable_sort(sums.begin(), sums.end(),
                   [](const StageSum& a, const StageSum& b) { return a.start < b.start; });
  std::vector<double> free(costs.table().planning().cluster->wires().size(), 0);
  double last = 0;
  for (const StageSum& sum : sums) {
    const PartitionStage& chunk = chunks[static_cast<size_t>(sum.chunk)];
    const double bytes = costs.table().ParameterBytes(chunk.first, chunk.end);
    last = std::max(last, sum.end);
    for (const WireSeconds& wire : costs.line().WiresOfAllReduce(chunk.devices)) {
      double& at = free[static_cast<size_t>(wire.wire.value)];
      at = std::max(at, sum.start) + wire.per_byte * bytes;
      last = std::max(last, at);
    }
  }
  return last;
}

}  // namespace heddle
