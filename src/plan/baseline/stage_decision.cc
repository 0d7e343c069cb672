#include "plan/baseline/stage_decision.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "program/plan/row_shares.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of one microbatch.
struct StageSeconds {
  double forward = 0, backward = 0;  // of the fastest member
  double slowest = 0;                // forward and backward
};

StageSeconds SecondsOf(const LayerTable& table, const StageChoice& stage, int64_t rows) {
  const int64_t each = rows / std::ssize(stage.devices);
  // Where there are fewer samples than members somebody has one, and nobody knows who.
  const LayerTable::Times& times = table.TimesFor(std::max<int64_t>(1, each));
  StageSeconds seconds{kInfinity, kInfinity, 0};
  for (const int device : stage.devices) {
    const int type = table.planning().cluster->device(DeviceId{device}).type;
    const LayerTable::Work work = times.Of(type, stage.layers.first, stage.layers.last + 1);
    seconds.forward = std::min(seconds.forward, work.forward);
    seconds.backward = std::min(seconds.backward, work.input + work.weight);
    if (each > 0) seconds.slowest = std::max(seconds.slowest, work.whole());
  }
  return seconds;
}

}  // namespace

GradientBytes GradientGroups(const Planning& planning, const StageDecision& decision) {
  std::vector<std::vector<DeviceId>> holders(static_cast<size_t>(planning.chain.size()));
  for (const std::vector<StageChoice>& stages : decision.pipelines) {
    for (const StageChoice& stage : stages) {
      for (int l = stage.layers.first; l <= stage.layers.last; ++l) {
        for (const int device : stage.devices) {
          holders[static_cast<size_t>(l)].push_back(DeviceId{device});
        }
      }
    }
  }
  return GradientGroups(planning, holders);
}

// ---- bounds -------------------------------------------------------------------------------------

const DecisionBound::Sizes& DecisionBound::SizesOf(const StageDecision& decision,
                                                   size_t pipeline) const {
  const size_t pipelines = decision.pipelines.size();
  const auto [known, is_new] = sizes_.try_emplace({decision.microbatches, pipelines});
  if (is_new) {
    known->second.resize(pipelines);
    const int64_t batch = table_.planning().request.batch;
    const std::vector<int64_t> rows = MicrobatchRows(batch, decision.microbatches);
    for (size_t m = 0; m < rows.size(); ++m) ++known->second[m % pipelines][rows[m]];
  }
  return known->second[pipeline];
}

double DecisionBound::MessageSeconds(const StageChoice& from, const StageChoice& to, int64_t rows,
                                     double bytes) const {
  const auto senders = std::ssize(from.devices), receivers = std::ssize(to.devices);
  constexpr int64_t kFew = 16;  // pairs that are worth a look
  if (senders * receivers > kFew) return 0;
  // A receiver's samples come from its share of the senders and from one more; one of them has an
  // equal part or more.
  const int64_t parts = senders == 1 ? 1 : (senders + receivers - 1) / receivers + 1;
  const double part = bytes * static_cast<double>(rows / receivers) / static_cast<double>(parts);
  double least = kInfinity;
  for (const int a : from.devices) {
    for (const int b : to.devices) {
      const Route& route = table_.planning().cluster->RouteBetween(DeviceId{a}, DeviceId{b});
      least = std::min(least, route.latency.value + part / route.bandwidth.value);
    }
  }
  return least;
}

DecisionBound::Alone DecisionBound::OfPipeline(const StageDecision& decision,
                                               size_t pipeline) const {
  const std::vector<StageChoice>& stages = decision.pipelines[pipeline];
  const Sizes& sizes = SizesOf(decision, pipeline);
  const int64_t rows = sizes.begin()->first;
  int64_t microbatches = 0;
  for (const auto& [unused, times] : sizes) microbatches += times;
  const size_t count = stages.size();
  std::vector<double> own(count, 0), last(count, 0);
  std::vector<double> there = {0}, back = {0};  // before stage s, and after it
  for (size_t s = 0; s < count; ++s) {
    for (const auto& [size, times] : sizes) {
      const StageSeconds seconds = SecondsOf(table_, stages[s], size);
      own[s] += static_cast<double>(times) * seconds.slowest;
      last[s] = std::max(last[s], seconds.slowest);
    }
    const StageSeconds least = SecondsOf(table_, stages[s], rows);
    double forward = 0, backward = 0;
    if (s + 1 < count) {
      const int end = stages[s].layers.last + 1;
      forward = MessageSeconds(stages[s], stages[s + 1], rows, table_.ForwardBytes(end));
      backward = MessageSeconds(stages[s + 1], stages[s], rows, table_.BackwardBytes(end));
    }
    there.push_back(there[s] + least.forward + forward);
    back.push_back(back[s] + least.backward + backward);
  }
  Alone alone;
  for (size_t s = 0; s < count; ++s) {
    const auto in_flight =
        static_cast<int64_t>(static_cast<size_t>(decision.depth) * (count - 1 - s) + 1);
    const auto trips = static_cast<double>((microbatches + in_flight - 1) / in_flight);
    const double trip = there[count] - there[s] + back[count] - back[s];
    alone.seconds = std::max(alone.seconds, there[s] + std::max(own[s], trips * trip) + back[s]);
    alone.last_backward.push_back(there[s] + own[s] - last[s]);
  }
  return alone;
}

double DecisionBound::Of(const StageDecision& decision) const {
  double bound = 0;
  for (size_t p = 0; p < decision.pipelines.size(); ++p) {
    bound = std::max(bound, OfPipeline(decision, p).seconds);
  }
  return bound;
}

// Seconds that each wire moves messages.
void DecisionBound::AddMessages(const StageDecision& decision, size_t pipeline,
                                std::vector<double>& wires) const {
  const Cluster& cluster = *table_.planning().cluster;
  const auto put = [&](int from, int to, double bytes) {
    for (const WireId wire : cluster.RouteBetween(DeviceId{from}, DeviceId{to}).wires) {
      const auto w = static_cast<size_t>(wire.value);
      wires[w] += bytes / cluster.wires()[w].bandwidth.value;
    }
  };
  const std::vector<StageChoice>& stages = decision.pipelines[pipeline];
  for (const auto& [rows, times] : SizesOf(decision, pipeline)) {
    for (size_t s = 0; s + 1 < stages.size(); ++s) {
      const std::vector<int>&from = stages[s].devices, &to = stages[s + 1].devices;
      const std::vector<Range> mine = DivideRows(rows, std::vector<double>(from.size(), 1));
      const std::vector<Range> theirs = DivideRows(rows, std::vector<double>(to.size(), 1));
      const int end = stages[s].layers.last + 1;
      for (size_t a = 0; a < from.size(); ++a) {
        for (size_t b = 0; b < to.size(); ++b) {
          const int64_t both =
              std::min(mine[a].end, theirs[b].end) - std::max(mine[a].begin, theirs[b].begin);
          if (both <= 0) continue;
          const auto samples = static_cast<double>(both * times);
          put(from[a], to[b], samples * table_.ForwardBytes(end));
          put(to[b], from[a], samples * table_.BackwardBytes(end));
        }
      }
    }
  }
}

double DecisionBound::WithWires(const StageDecision& decision, GradientSums& sums) const {
  const Planning& planning = table_.planning();
  const Cluster& cluster = *planning.cluster;
  const bool compete = planning.request.links != LinkModel::kChannels;
  double bound = 0, first_sum = kInfinity;
  std::map<DeviceId, double> ready;  // to sum: the last backward has begun
  std::vector<double> wires(cluster.wires().size(), 0), summing(wires);
  for (size_t p = 0; p < decision.pipelines.size(); ++p) {
    const Alone alone = OfPipeline(decision, p);
    bound = std::max(bound, alone.seconds);
    for (size_t s = 0; s < alone.last_backward.size(); ++s) {
      first_sum = std::min(first_sum, alone.last_backward[s]);
      for (const int device : decision.pipelines[p][s].devices) {
        ready[DeviceId{device}] = alone.last_backward[s];
      }
    }
    if (compete) AddMessages(decision, p, wires);
  }
  if (planning.request.sync == GradientSync::kAllReduce) {
    const GradientBytes groups = GradientGroups(planning, decision);
    const CollectiveAlgorithm algorithm = sums.Choose(groups);
    for (const auto& [group, bytes] : groups) {
      const CommCost& cost = sums.OfBucket(group, algorithm);
      const double buckets = bytes / static_cast<double>(Plan{}.bucket.value);
      double start = 0;
      for (const DeviceId device : group) start = std::max(start, ready.at(device));
      bound = std::max(bound, start + buckets * (cost.seconds - cost.latency).value);
      for (const WireLoad& load : cost.loads) {
        const auto w = static_cast<size_t>(load.wire.value);
        summing[w] += buckets * load.bytes / cluster.wires()[w].bandwidth.value;
      }
    }
  }
  for (size_t w = 0; w < wires.size() && compete; ++w) {
    bound = std::max({bound, wires[w] + summing[w], summing[w] > 0 ? first_sum + summing[w] : 0});
  }
  return bound;
}

}  // namespace heddle
