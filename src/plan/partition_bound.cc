#include "plan/partition_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "plan/sample_seconds.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// sums[k]: over the layers before k.
using PrefixSums = std::vector<double>;

PrefixSums SumsOf(const std::vector<double>& values) {
  PrefixSums sums = {0};
  for (const double value : values) sums.push_back(sums.back() + value);
  return sums;
}

// Of the fastest type of device for each layer.
PrefixSums Fastest(const std::vector<std::vector<double>>& by_type) {
  std::vector<double> least = by_type[0];
  for (const std::vector<double>& layers : by_type) {
    for (size_t l = 0; l < layers.size(); ++l) least[l] = std::min(least[l], layers[l]);
  }
  return SumsOf(least);
}

// Bytes per second that the best so many devices, or nodes, can send in all: out[k] of k of them.
using Outlets = std::vector<double>;

Outlets OutletsOf(std::vector<double> bandwidths) {
  std::sort(bandwidths.begin(), bandwidths.end(), std::greater<>());
  return SumsOf(bandwidths);
}

double SumOfBandwidths(const Cluster& cluster, const std::set<WireId>& wires) {
  double sum = 0;
  for (const WireId wire : wires) {
    sum += cluster.wires()[static_cast<size_t>(wire.value)].bandwidth.value;
  }
  return sum;
}

// Every route from a device begins with one of few wires.
Outlets DeviceOutlets(const Cluster& cluster) {
  std::vector<double> out;
  for (int from = 0; from < cluster.device_count(); ++from) {
    std::set<WireId> first;
    for (int to = 0; to < cluster.device_count(); ++to) {
      const Route& route = cluster.RouteBetween(DeviceId{from}, DeviceId{to});
      if (!route.wires.empty()) first.insert(route.wires.front());
    }
    out.push_back(SumOfBandwidths(cluster, first));
  }
  return OutletsOf(std::move(out));
}

// Every route out of a node has a first wire that no route inside it uses.
Outlets NodeOutlets(const Cluster& cluster) {
  std::vector<double> out;
  for (const Node& node : cluster.nodes()) {
    std::set<WireId> inside, leaving;
    for (const DeviceId a : node.devices) {
      for (const DeviceId b : node.devices) {
        const Route& route = cluster.RouteBetween(a, b);
        inside.insert(route.wires.begin(), route.wires.end());
      }
    }
    for (const DeviceId a : node.devices) {
      for (int b = 0; b < cluster.device_count(); ++b) {
        for (const WireId wire : cluster.RouteBetween(a, DeviceId{b}).wires) {
          if (inside.contains(wire)) continue;
          leaving.insert(wire);
          break;
        }
      }
    }
    out.push_back(SumOfBandwidths(cluster, leaving));
  }
  return OutletsOf(std::move(out));
}

class Relaxation {
 public:
  explicit Relaxation(const Planning& planning)
      : devices_(planning.cluster->device_count()),
        layers_(planning.chain.size()),
        batch_(planning.request.batch),
        most_microbatches_(planning.request.microbatches.value_or(batch_)),
        given_(planning.request.microbatches.has_value()),
        device_out_(DeviceOutlets(*planning.cluster)),
        node_out_(NodeOutlets(*planning.cluster)) {
    const int64_t rows = given_ ? (batch_ + most_microbatches_ - 1) / most_microbatches_ : batch_;
    whole_ =
        Fastest(LayerSampleSeconds(planning, rows, {&ChainLayer::forward, &ChainLayer::backward}));
    on_way_ = Fastest(
        LayerSampleSeconds(planning, rows, {&ChainLayer::forward, &ChainLayer::backward_input}));
    for (const Node& node : planning.cluster->nodes()) {
      largest_node_ = std::max(largest_node_, static_cast<int>(node.devices.size()));
    }
    for (const Device& device : planning.cluster->devices()) {
      mixed_ |= device.type != planning.cluster->devices()[0].type;
    }
    FillBytes(planning);
    for (int a = 0; a < devices_; ++a) {
      for (int b = 0; b < devices_; ++b) {
        if (a == b) continue;
        const Route& route = planning.cluster->RouteBetween(DeviceId{a}, DeviceId{b});
        best_route_ = std::max(best_route_, route.bandwidth.value);
      }
    }
    std::vector<double> messages;
    for (int l = 1; l < layers_; ++l) messages.push_back(MessageSeconds(l));
    std::sort(messages.begin(), messages.end());
    least_messages_ = SumsOf(messages);
  }

  // Is there a pipeline, in this relaxation, that takes no longer than T?
  bool Possible(double seconds) const {
    for (int pipelines = 1; pipelines <= devices_; ++pipelines) {
      if (devices_ % pipelines != 0) continue;
      if (given_ && most_microbatches_ % pipelines != 0) continue;
      if (Straight(pipelines, seconds) || TwoRuns(pipelines, seconds)) return true;
    }
    return false;
  }

 private:
  void FillBytes(const Planning& planning) {
    std::vector<double> parameters(static_cast<size_t>(layers_), 0);
    for (const Parameter& parameter : planning.graph.parameters()) {
      const auto bytes =
          static_cast<double>(planning.graph.tensor(parameter.gradient).bytes().value);
      const int first = parameter.layers.front().value, last = parameter.layers.back().value;
      if (first < last) {
        tied_.push_back({first, last, bytes});
      } else {
        parameters[static_cast<size_t>(first)] += bytes;
      }
    }
    gradients_ = SumsOf(parameters);
    const auto sample_bytes = [&](const std::vector<TensorId>& tensors) {
      double bytes = 0;
      for (const TensorId id : tensors) {
        const Tensor& tensor = planning.graph.tensor(id);
        if (tensor.per_sample) bytes += static_cast<double>(tensor.bytes().value);
      }
      return bytes / static_cast<double>(planning.graph.batch());
    };
    forward_bytes_ = backward_bytes_ = {0};
    for (const Cut& cut : planning.chain.cuts) {
      forward_bytes_.push_back(sample_bytes(cut.forward));
      backward_bytes_.push_back(sample_bytes(cut.backward));
    }
  }

  // Seconds per byte of an all-reduce over so many.
  double SumSeconds(int group) const {
    if (group < 2) return 0;
    group = std::min(group, devices_);
    double seconds = 2.0 * (group - 1) / device_out_[static_cast<size_t>(group)];
    const int nodes = (group + largest_node_ - 1) / largest_node_;
    if (nodes > 1) {
      seconds = std::max(seconds, 2.0 * (nodes - 1) / node_out_[static_cast<size_t>(nodes)]);
    }
    return seconds;
  }

  // Of a stage's gradients over its r devices in every pipeline; of tied weights, over one more if
  // not all that read them are here.
  double StageSums(int first, int end, int replicas, int pipelines) const {
    double seconds = SumSeconds(replicas * pipelines) * Between(gradients_, first, end);
    for (const Tied& tied : tied_) {
      const bool has_first = tied.first >= first && tied.first < end;
      const bool has_last = tied.last >= first && tied.last < end;
      if (!has_first && !has_last) continue;
      const int holders = (replicas + (has_first && has_last ? 0 : 1)) * pipelines;
      seconds += SumSeconds(holders) * tied.bytes;
    }
    return seconds;
  }

  // Samples of the smallest part of a microbatch, or less: devices that are unequal get unequal
  // parts, rounded.
  double LeastPart(double rows, int replicas) const {
    const double part = rows / replicas;
    if (mixed_ && replicas > 1) return std::max(0.0, part - 1);
    return std::max(1.0, std::floor(part));
  }

  // One run of layers per stage.
  bool Straight(int pipelines, double limit) const {
    const int devices = devices_ / pipelines;
    const double samples = static_cast<double>(batch_) / pipelines;
    const auto all = static_cast<double>(most_microbatches_);
    const double rows = std::floor(static_cast<double>(batch_) / all);
    // With one microbatch at once no gradients are complete before the only backward.
    const double before_last = given_ ? (std::floor(all / pipelines) - 1) * rows : 0;
    // The shortest way to a layer by devices used, and whether the stage before it is one device.
    const auto columns = 2 * (static_cast<size_t>(devices) + 1);
    std::vector<double> ways((static_cast<size_t>(layers_) + 1) * columns, kInfinity);
    const auto way_to = [&](int layer, int used, bool one) -> double& {
      return ways[static_cast<size_t>(layer) * columns + 2 * static_cast<size_t>(used) + one];
    };
    way_to(0, 0, false) = 0;
    for (int l = 0; l < layers_; ++l) {
      for (int used = 0; used < devices; ++used) {
        for (int r = 1; used + r <= devices; ++r) {
          // Between unequal numbers of replicas parts of a message may be small.
          const double message = r == 1 ? rows * MessageSeconds(l) : 0;
          const double before = std::min(way_to(l, used, false), way_to(l, used, true) + message);
          if (before == kInfinity) continue;
          const double out = device_out_[static_cast<size_t>(r)];
          const double part = LeastPart(rows, r);
          for (int end = l + 1; end <= layers_; ++end) {
            const double whole = Between(whole_, l, end), on_way = Between(on_way_, l, end);
            const bool too_long = samples * whole / r > limit ||
                                  before + samples * on_way / r > limit ||
                                  before_last * whole / r + StageSums(l, end, r, pipelines) > limit;
            if (too_long) break;
            if (end < layers_ && samples * CutBytes(end) / out > limit) continue;
            double& next = way_to(end, used + r, r == 1);
            next = std::min(next, before + part * on_way);
          }
        }
      }
    }
    const auto last = ways.end() - static_cast<std::ptrdiff_t>(columns);
    return std::any_of(last, ways.end(), [](double seconds) { return seconds < kInfinity; });
  }

  // Two runs on each of as many devices as there are stages: their work, one microbatch's way with
  // whole messages (of one of the cuts both sides may be on one device), sums over the pipelines.
  bool TwoRuns(int pipelines, double limit) const {
    const auto microbatches = static_cast<int>(most_microbatches_ / pipelines);
    const int most = std::min({devices_ / pipelines, layers_ / 2, microbatches});
    const double samples = static_cast<double>(batch_) / pipelines;
    const double rows =
        std::floor(static_cast<double>(batch_) / static_cast<double>(most_microbatches_));
    const double sums = SumSeconds(pipelines) * gradients_.back();
    for (int devices = 2; devices <= most; ++devices) {
      const double messages = rows * least_messages_[2 * static_cast<size_t>(devices) - 2];
      const bool possible = samples * whole_.back() / devices <= limit &&
                            rows * on_way_.back() + messages <= limit && sums / devices <= limit;
      if (possible) return true;
    }
    return false;
  }

  // Of one sample there and back, across the cut before a layer.
  double MessageSeconds(int layer) const {
    return (forward_bytes_[static_cast<size_t>(layer)] +
            backward_bytes_[static_cast<size_t>(layer)]) /
           best_route_;
  }

  // Of the direction that carries more.
  double CutBytes(int end) const {
    return std::max(forward_bytes_[static_cast<size_t>(end)],
                    backward_bytes_[static_cast<size_t>(end)]);
  }
  static double Between(const PrefixSums& sums, int first, int end) {
    return sums[static_cast<size_t>(end)] - sums[static_cast<size_t>(first)];
  }

  int devices_, layers_;
  int64_t batch_;
  int64_t most_microbatches_;
  bool given_;  // the number of microbatches
  Outlets device_out_, node_out_;
  PrefixSums whole_, on_way_;  // seconds of a sample
  PrefixSums gradients_;       // bytes, of weights that one layer reads
  struct Tied {
    int first, last;  // layers that read it
    double bytes;
  };
  std::vector<Tied> tied_;
  std::vector<double> forward_bytes_,
      backward_bytes_;                  // of a sample, across the cut before a layer
  double best_route_ = 1e-30;           // bytes per second
  std::vector<double> least_messages_;  // of one sample: the sum of the smallest k
  int largest_node_ = 1;
  bool mixed_ = false;
};

}  // namespace

Seconds PartitionBound(const Planning& planning, Seconds start, Seconds limit) {
  constexpr int kManyDevices = 64;  // larger ones take seconds
  if (planning.cluster->device_count() > kManyDevices) return start;
  // There all-reduces do not compete for wires.
  if (planning.request.links == LinkModel::kChannels) return start;
  const Relaxation relaxation(planning);
  double below = start.value, above = limit.value;
  constexpr int kSteps = 7;
  for (int step = 0; step < kSteps && below < above; ++step) {
    const double middle = (below + above) / 2;
    (relaxation.Possible(middle) ? above : below) = middle;
  }
  return Seconds{std::max(below, start.value)};
}

}  // namespace heddle
