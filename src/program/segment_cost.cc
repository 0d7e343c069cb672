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

// Seconds of segments by device type, those of equal work computed once.
class SegmentTimes {
 public:
  SegmentTimes(const Program& program, const Cluster& cluster, const OpCost* cost)
      : p_(program), cluster_(cluster), cost_(cost) {}

  Result<double> Of(int32_t id, int type) {
    const Segment& segment = p_.segment(id);
    if (segment.time) return segment.time->value;
    if (segment.ops.empty()) {
      return MoveSeconds(p_, segment, cluster_.types()[static_cast<size_t>(type)]);
    }
    Work work{{}, segment.rows.size()};
    for (const SegmentOp& op : segment.ops) work.ops.emplace_back(op.op, op.shards);
    const auto [same, unknown] = by_work_.try_emplace({type, std::move(work)}, 0);
    if (unknown) {
      HEDDLE_ASSIGN(same->second,
                    SecondsOf(p_, segment, cost_, cluster_.types()[static_cast<size_t>(type)]));
    }
    return same->second;
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
  SegmentSeconds seconds;
  constexpr double kUnused = -1;
  seconds.seconds_.assign(cluster.types().size(),
                          std::vector<double>(program.segments.size(), kUnused));
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const int type = cluster.device(ids[d]).type;
    seconds.types_.push_back(type);
    for (const auto& list : program.devices[d].sections) {
      for (const Instruction& in : list) {
        if (in.code != OpCode::kCompute) continue;
        double& known = seconds.seconds_[static_cast<size_t>(type)][static_cast<size_t>(in.target)];
        if (known >= 0) continue;
        HEDDLE_ASSIGN(known, times.Of(in.target, type));
      }
    }
  }
  return seconds;
}

}  // namespace heddle
