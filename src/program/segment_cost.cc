#include "program/segment_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace heddle {
namespace {

// A segment without ops moves what it reads to where it writes it (program.md): memory traffic.
double MoveSeconds(const Program& program, const Segment& segment, const DeviceTypeSpec& type) {
  Bytes read, written;
  for (const Port& port : segment.ports) {
    const bool reads = port.use == PortUse::kRead || port.use == PortUse::kConsume;
    (reads ? read : written) += program.BytesOf(port.tensor, port.slice);
  }
  const bool moves = segment.phase == SegmentPhase::kOther && read.value > 0 && written.value > 0;
  if (!moves) return 0;
  const Bytes traffic = std::min(read, written) + written;
  return (type.launch_overhead + traffic / type.memory_bandwidth).value;
}

Result<double> SecondsOf(const Program& program, const Segment& segment, const OpCost* cost,
                         const DeviceTypeSpec& type) {
  if (cost == nullptr) {
    return BadInput("program", fmt::format("segment {} states no time", segment.name),
                    "add \"time 0.001 s\" to it, or give the model");
  }
  double seconds = 0;
  for (const SegmentOp& segment_op : segment.ops) {
    const auto id = cost->graph().FindOp(program.NameOf(segment_op));
    if (!id) {
      return BadInput("program", fmt::format("segment {}: the model has no op {}", segment.name,
                                             program.NameOf(segment_op)));
    }
    const Op& op = cost->graph().op(*id);
    std::vector<int64_t> extents =
        segment.rows.size() > 0 ? ExtentsForRows(op, segment.rows.size()) : op.extents;
    for (const auto& [letter, range] : program.ShardsOf(segment_op)) {
      const size_t at = op.IndexOf(letter);
      if (at == std::string::npos || range.end > op.extents[at]) {
        return BadInput("program", fmt::format("segment {}: {} has no shard {}={}:{}", segment.name,
                                               op.name, letter, range.begin, range.end));
      }
      extents[at] = range.size();
    }
    seconds += cost->OpSeconds(op, extents, type).value;
  }
  return seconds;
}

// Seconds by segment and device type, each computed once.
class SegmentTimes {
 public:
  SegmentTimes(const Program& program, const Cluster& cluster, const OpCost* cost)
      : p_(program), cluster_(cluster), cost_(cost) {}

  Result<double> Of(int32_t id, int type) {
    const auto [found, is_new] = by_segment_.try_emplace({type, id}, 0);
    if (!is_new) return found->second;
    const Segment& segment = p_.segment(id);
    if (segment.time) return found->second = segment.time->value;
    if (segment.ops.empty()) {
      const DeviceTypeSpec& device = cluster_.types()[static_cast<size_t>(type)];
      return found->second = MoveSeconds(p_, segment, device);
    }
    Work work{{}, segment.rows.size()};
    for (const SegmentOp& op : segment.ops) work.ops.emplace_back(op.op, op.shards);
    const auto [same, unknown] = by_work_.try_emplace({type, std::move(work)}, 0);
    if (unknown) {
      HEDDLE_ASSIGN(same->second,
                    SecondsOf(p_, segment, cost_, cluster_.types()[static_cast<size_t>(type)]));
    }
    return found->second = same->second;
  }

 private:
  // Everything that decides the time of a segment that states none: replicas differ in their rows'
  // place, not in their number.
  struct Work {
    std::vector<std::pair<int32_t, int32_t>> ops;
    int64_t rows;
    auto operator<=>(const Work&) const = default;
  };

  const Program& p_;
  const Cluster& cluster_;
  const OpCost* cost_;
  std::map<std::pair<int, int32_t>, double> by_segment_;
  std::map<std::pair<int, Work>, double> by_work_;
};

}  // namespace

Result<std::vector<DeviceId>> FindDevices(const Program& program, const Cluster& cluster) {
  std::vector<DeviceId> ids;
  for (const DeviceProgram& device : program.devices) {
    const auto id = cluster.FindDevice(device.name);
    if (!id) {
      return BadInput("program", fmt::format("the cluster has no device \"{}\"", device.name),
                      "the Program belongs to another cluster");
    }
    ids.push_back(*id);
  }
  return ids;
}

Result<SegmentSeconds> CostSegments(const Program& program, const Cluster& cluster,
                                    const OpCost* cost) {
  HEDDLE_ASSIGN(const std::vector<DeviceId> ids, FindDevices(program, cluster));
  SegmentTimes times(program, cluster, cost);
  SegmentSeconds seconds(program.devices.size());
  for (size_t d = 0; d < program.devices.size(); ++d) {
    seconds[d].resize(program.segments.size(), 0);
    const int type = cluster.device(ids[d]).type;
    for (const auto& list : program.devices[d].sections) {
      for (const Instruction& in : list) {
        if (in.code != OpCode::kCompute) continue;
        HEDDLE_ASSIGN(seconds[d][static_cast<size_t>(in.target)], times.Of(in.target, type));
      }
    }
  }
  return seconds;
}

}  // namespace heddle
