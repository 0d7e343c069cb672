#include "plan/list_guarantee.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "cost/network_cost.h"
#include "plan/order/orders.h"
#include "program/check/check.h"
#include "program/lower/lower.h"

namespace heddle {
namespace {

// Microbatches of a pipeline, in order.
std::vector<int32_t> MicrobatchesOf(const PipelinePlan& pipeline) {
  std::set<int32_t> all;
  for (const WorkItem& item : pipeline.stages[0].order) all.insert(item.microbatch);
  return {all.begin(), all.end()};
}

// What devices compute for one microbatch, at most, and what they compute once an iteration.
class ComputeSeconds {
 public:
  ComputeSeconds(const Program& program, const SegmentSeconds& seconds) {
    for (size_t d = 0; d < program.devices.size(); ++d) {
      std::map<std::pair<bool, int64_t>, double> pieces;  // backward or not, microbatch
      double other = 0;
      for (const Instruction& in : program.devices[d].list(Section::kBody)) {
        if (in.code != OpCode::kCompute) continue;
        const Segment& segment = program.segment(in.target);
        const double mine = seconds.Of(static_cast<int32_t>(d), in.target);
        if (!in.microbatch.present()) {
          other += mine;
          continue;
        }
        const bool backward = segment.phase != SegmentPhase::kForward || segment.recompute;
        pieces[{backward, in.microbatch.value(0)}] += mine;
      }
      double forward = 0, backward = 0;
      for (const auto& [piece, length] : pieces) {
        double& longest = piece.first ? backward : forward;
        longest = std::max(longest, length);
      }
      cycle_ = std::max(cycle_, forward + backward);
      once_ = std::max(once_, other);
    }
  }

  double cycle() const { return cycle_; }
  double once() const { return once_; }

 private:
  double cycle_ = 0, once_ = 0;
};

// Messages from one device to another: they go one after the other.
struct Stream {
  std::vector<WireId> wires;
  double latency = 0;
  double bandwidth = 0;             // alone
  std::map<int64_t, double> bytes;  // by microbatch
  std::map<int64_t, int> messages;  // likewise
};

using Streams = std::map<std::pair<int32_t, int32_t>, Stream>;

Streams StreamsOf(const Program& program, const Cluster& cluster,
                  const std::vector<DeviceId>& devices) {
  Streams streams;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const DeviceProgram& list = program.devices[d];
    for (const Instruction& in : list.list(Section::kBody)) {
      if (in.code != OpCode::kSend) continue;
      const auto from = static_cast<int32_t>(d);
      const auto [found, is_new] = streams.try_emplace({from, in.target});
      Stream& stream = found->second;
      if (is_new) {
        const Route& route =
            cluster.RouteBetween(devices[d], devices[static_cast<size_t>(in.target)]);
        stream.wires = route.wires;
        stream.latency = route.latency.value;
        stream.bandwidth = route.bandwidth.value;
      }
      const BufferRef& ref = list.operands[static_cast<size_t>(in.first_operand)];
      const int64_t microbatch = ref.microbatch.present() ? ref.microbatch.value(0) : 0;
      stream.bytes[microbatch] += static_cast<double>(program.BytesOf(ref.tensor, ref.slice).value);
      ++stream.messages[microbatch];
    }
  }
  return streams;
}

// The longest that the messages of a microbatch take on a stream if every other stream moves
// something on each of its wires.
double MessageCycle(const Streams& streams, const Cluster& cluster) {
  std::map<WireId, int> users;
  for (const auto& [ends, stream] : streams) {
    for (const WireId wire : stream.wires) ++users[wire];
  }
  double cycle = 0;
  for (const auto& [ends, stream] : streams) {
    double rate = stream.bandwidth;
    for (const WireId wire : stream.wires) {
      const double whole = cluster.wires()[static_cast<size_t>(wire.value)].bandwidth.value;
      rate = std::min(rate, whole / users.at(wire));
    }
    for (const auto& [microbatch, bytes] : stream.bytes) {
      cycle = std::max(cycle, stream.messages.at(microbatch) * stream.latency + bytes / rate);
    }
  }
  return cycle;
}

// Collectives that meet on a wire, directly or through others.
struct Meeting {
  std::set<WireId> wires;
  double seconds = 0;
};

std::vector<Meeting> MeetingsOf(const Program& program, const Cluster& cluster,
                                const std::vector<DeviceId>& devices) {
  std::vector<Meeting> meetings;
  const NetworkCost network(cluster);
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const DeviceProgram& list = program.devices[d];
    for (const Instruction& in : list.list(Section::kBody)) {
      if (in.code != OpCode::kCollective) continue;
      const std::vector<int32_t>& members = program.group(in.target).devices;
      if (members.front() != static_cast<int32_t>(d)) continue;  // counted there
      std::vector<DeviceId> group;
      for (const int32_t member : members) group.push_back(devices[static_cast<size_t>(member)]);
      Bytes bytes;
      for (int32_t k = 0; k < in.operand_count; ++k) {
        bytes +=
            program.BytesOf(list.operands[static_cast<size_t>(in.first_operand + k)].tensor, -1);
      }
      const std::vector<Bytes> sizes = {bytes};
      const CommCost cost = network.Collective({in.kind, group, sizes, in.algorithm, 0});
      Meeting merged{{}, cost.seconds.value};
      for (const WireLoad& load : cost.loads) merged.wires.insert(load.wire);
      std::erase_if(meetings, [&](const Meeting& other) {
        const bool meets = std::any_of(other.wires.begin(), other.wires.end(),
                                       [&](WireId wire) { return merged.wires.contains(wire); });
        if (meets) {
          merged.seconds += other.seconds;
          merged.wires.insert(other.wires.begin(), other.wires.end());
        }
        return meets;
      });
      meetings.push_back(std::move(merged));
    }
  }
  return meetings;
}

// Where messages go, sums may hold them up, on one wire after the other; elsewhere each begins when
// its gradients are there, beside the others.
double SumSeconds(const std::vector<Meeting>& meetings, const Streams& streams) {
  double among_messages = 0, longest = 0;
  for (const Meeting& meeting : meetings) {
    const bool meets_messages =
        std::any_of(streams.begin(), streams.end(), [&](const auto& stream) {
          const std::vector<WireId>& wires = stream.second.wires;
          return std::any_of(wires.begin(), wires.end(),
                             [&](WireId wire) { return meeting.wires.contains(wire); });
        });
    if (meets_messages) among_messages += meeting.seconds;
    if (!meets_messages) longest = std::max(longest, meeting.seconds);
  }
  return among_messages + longest;
}

bool Fits(const Program& program, const Cluster& cluster, const std::vector<DeviceId>& devices) {
  const Verdict verdict = CheckMemory(program, {});
  for (size_t d = 0; d < devices.size(); ++d) {
    if (verdict.memory[d].peak > cluster.type_of(devices[d]).memory) return false;
  }
  return true;
}

}  // namespace

bool HasListOrder(const Plan& plan) {
  if (plan.spmd || plan.async || plan.local || plan.pipelines.empty()) return false;
  if (plan.has_bodies()) return false;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    if (pipeline.stages.empty()) return false;
    for (const StagePlan& stage : pipeline.stages) {
      if (stage.chunks.size() != 1) return false;
    }
  }
  return true;
}

Plan ListOrdered(Plan plan) {
  plan.order_name = "list";
  for (PipelinePlan& pipeline : plan.pipelines) {
    const std::vector<int32_t> microbatches = MicrobatchesOf(pipeline);
    const auto stages = static_cast<int>(pipeline.stages.size());
    std::vector<WorkOrder> orders =
        WarmUpOrders(ListInFlight(stages), static_cast<int>(microbatches.size()));
    for (int s = 0; s < stages; ++s) {
      WorkOrder& order = orders[static_cast<size_t>(s)];
      for (WorkItem& item : order) {
        item.microbatch = microbatches[static_cast<size_t>(item.microbatch)];
      }
      pipeline.stages[static_cast<size_t>(s)].order = std::move(order);
    }
  }
  return plan;
}

Seconds ListGuarantee(const Planning& planning, const Plan& plan) {
  constexpr int kMany = 256;  // devices: lowering them once more takes long
  const Cluster& cluster = *planning.cluster;
  const bool moves_itself =
      std::any_of(cluster.types().begin(), cluster.types().end(),
                  [](const DeviceTypeSpec& type) { return type.message_bandwidth.has_value(); });
  if (!HasListOrder(plan) || moves_itself || planning.request.links != LinkModel::kShared ||
      plan.request.sync != GradientSync::kAllReduce || cluster.device_count() > kMany) {
    return Seconds{0};
  }
  const Result<Program> lowered = LowerPlan(ListOrdered(plan), planning.graph);
  if (!lowered.ok()) return Seconds{0};
  const Program& program = lowered.value();
  const OpCost cost = planning.cost();
  const Result<SegmentSeconds> seconds = CostSegments(program, cluster, &cost);
  const Result<std::vector<DeviceId>> devices = FindDevices(program, cluster);
  if (!seconds.ok() || !devices.ok() || !Fits(program, cluster, devices.value())) return Seconds{0};
  const ComputeSeconds compute(program, seconds.value());
  const Streams streams = StreamsOf(program, cluster, devices.value());
  const double cycle = std::max(compute.cycle(), MessageCycle(streams, cluster));
  double cycles = 0;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    const auto microbatches = static_cast<double>(MicrobatchesOf(pipeline).size());
    cycles = std::max(cycles, microbatches + 4.0 * static_cast<double>(pipeline.stages.size()) - 4);
  }
  const double sums = SumSeconds(MeetingsOf(program, cluster, devices.value()), streams);
  return Seconds{cycles * cycle + sums + compute.once()};
}

}  // namespace heddle
