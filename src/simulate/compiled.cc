#include "simulate/compiled.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "program/text/program_text.h"

namespace heddle {
namespace {

EventKind EventOf(SegmentPhase phase) {
  static constexpr std::array<EventKind, kSegmentPhaseCount> kKinds = {
      EventKind::kForward,        EventKind::kBackward, EventKind::kBackward,
      EventKind::kBackwardWeight, EventKind::kUpdate,   EventKind::kOther};
  return kKinds[static_cast<size_t>(phase)];
}

uint64_t Pack(int32_t high, int32_t low) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32) | static_cast<uint32_t>(low);
}

}  // namespace

Status CheckCollectives(const Program& program, const std::vector<DeviceId>& devices,
                        const Cluster& cluster) {
  const NetworkCost network(cluster);
  std::set<std::tuple<int32_t, CollectiveKind, CollectiveAlgorithm>> seen;
  for (const DeviceProgram& device : program.devices) {
    for (const auto& list : device.sections) {
      for (const Instruction& in : list) {
        if (in.code != OpCode::kCollective) continue;
        if (!seen.emplace(in.target, in.kind, in.algorithm).second) continue;
        std::vector<DeviceId> group;
        for (const int32_t member : program.group(in.target).devices) {
          group.push_back(devices[static_cast<size_t>(member)]);
        }
        if (network.Supports({in.kind, group, {}, in.algorithm})) continue;
        return BadInput("program",
                        fmt::format("device {}: {}: there is no {} {} over this group", device.name,
                                    PrintInstruction(program, device, in), NameOf(in.algorithm),
                                    NameOf(in.kind)),
                        "use ring, which fits all");
      }
    }
  }
  return Ok();
}

Compiler::Compiler(const Program& program, const std::vector<DeviceId>& devices,
                   const Cluster& cluster, const SegmentSeconds& seconds, LinkModel model)
    : p_(program),
      devices_(devices),
      cluster_(cluster),
      seconds_(seconds),
      model_(model),
      network_(cluster, /*counts_traffic=*/true),
      relative_(IsRelative(program)),
      communicated_(program.devices.size(), std::vector<bool>(program.tensors.size())),
      waits_(program.devices.size()),
      slots_(program.devices.size()) {
  FindWaits();
  if (model_ == LinkModel::kChannels) FindJobs();
}

// Which tensors communication touches on each device, and so which ports a compute must wait for.
void Compiler::FindWaits() {
  for (size_t d = 0; d < p_.devices.size(); ++d) {
    const DeviceProgram& device = p_.devices[d];
    communicated_[d] = CommunicatedTensors(p_, device);
    for (const auto& list : device.sections) {
      for (const Instruction& in : list) {
        if (in.code != OpCode::kCompute || waits_[d].contains(in.target)) continue;
        std::vector<int32_t>& uses = waits_[d][in.target];
        for (int32_t k = 0; k < UseCount(p_, in); ++k) {
          const BufferUse use = UseOf(p_, device, in, k);
          if (communicated_[d][static_cast<size_t>(use.ref.tensor)]) uses.push_back(k);
        }
      }
    }
  }
}

std::optional<Compiler::JobKey> Compiler::JobKeyOf(int32_t device, Section section,
                                                   const Instruction& in) const {
  const auto channel = channel_of_.find({device, in.target});
  if (channel == channel_of_.end()) return std::nullopt;
  const DeviceProgram& d = p_.devices[static_cast<size_t>(device)];
  const BufferRef& ref = d.operands[static_cast<size_t>(in.first_operand)];
  return JobKey{channel->second, ref.tensor, ref.microbatch, in.tag, section};
}

// Under the channels model all messages of one tensor and microbatch between two stages are one
// job; its time is that of the busiest port or link among them.
void Compiler::FindJobs() {
  for (const Channel& channel : p_.channels) {
    const auto forward = static_cast<int32_t>(channel_resources_++);
    const auto back = channel.half_duplex ? forward : static_cast<int32_t>(channel_resources_++);
    for (const int32_t a : channel.ends[0]) {
      for (const int32_t b : channel.ends[1]) {
        channel_of_[{a, b}] = forward;
        channel_of_[{b, a}] = back;
      }
    }
  }
  std::map<JobKey, CommCost> costs;
  std::map<JobKey, int32_t> counts;
  for (size_t d = 0; d < p_.devices.size(); ++d) {
    for (int s = 0; s < kSectionCount; ++s) {
      for (const Instruction& in : p_.devices[d].sections[static_cast<size_t>(s)]) {
        if (in.code != OpCode::kSend) continue;
        const auto key = JobKeyOf(static_cast<int32_t>(d), static_cast<Section>(s), in);
        if (!key) continue;
        const BufferRef& ref = p_.devices[d].operands[static_cast<size_t>(in.first_operand)];
        const CommCost cost =
            network_.Transfer(devices_[d], devices_[static_cast<size_t>(in.target)],
                              p_.BytesOf(ref.tensor, ref.slice));
        CommCost& job = costs[*key];
        job.latency = std::max(job.latency, cost.latency);
        job.loads.insert(job.loads.end(), cost.loads.begin(), cost.loads.end());
        ++counts[*key];
      }
    }
  }
  for (auto& [key, cost] : costs) {
    std::map<WireId, double> bytes;
    for (const WireLoad& load : cost.loads) bytes[load.wire] += load.bytes;
    cost.loads.clear();
    cost.seconds = cost.latency;
    for (const auto& [wire, load] : bytes) {
      const Bandwidth bandwidth = cluster_.wires()[static_cast<size_t>(wire.value)].bandwidth;
      cost.seconds = std::max(cost.seconds, cost.latency + Seconds{load / bandwidth.value});
      cost.loads.push_back({wire, load});
    }
    const int32_t flow = AddFlow(cost);
    flows_[static_cast<size_t>(flow)]->spec.channel = std::get<0>(key);
    job_ids_[key] = static_cast<int32_t>(jobs_.size());
    jobs_.push_back({counts[key], flow});
  }
}

const CompiledList* Compiler::List(int32_t device, const Step& step, CompiledList& storage) {
  if (relative_) {
    Compile(device, step, storage);
    return &storage;
  }
  const auto [found, is_new] = made_.try_emplace({device, step.section});
  if (is_new) Compile(device, step, found->second);
  return &found->second;
}

void Compiler::Compile(int32_t device, const Step& step, CompiledList& list) {
  list.ops.clear();
  list.slots.clear();
  const auto& instructions = p_.devices[static_cast<size_t>(device)].list(step.section);
  list.ops.reserve(instructions.size());
  for (const Instruction& in : instructions) list.ops.push_back(CompileOp(device, step, in, list));
}

CompiledOp Compiler::CompileOp(int32_t device, const Step& step, const Instruction& in,
                               CompiledList& list) {
  const DeviceProgram& d = p_.devices[static_cast<size_t>(device)];
  CompiledOp op;
  op.code = in.code;
  op.holds_up = in.on_compute;
  op.first_slot = static_cast<int32_t>(list.slots.size());
  if (in.code == OpCode::kCompute) {
    op.seconds = seconds_.Of(device, in.target);
    op.event = EventOf(p_.segment(in.target).phase);
    op.label = in.target;
    if (in.microbatch.present()) op.microbatch = static_cast<int32_t>(in.microbatch.value(step.i));
    for (const int32_t k : waits_[static_cast<size_t>(device)].at(in.target)) {
      AddSlot(device, UseOf(p_, d, in, k), step.i, list);
    }
  } else {
    for (int32_t k = 0; k < UseCount(p_, in); ++k) {
      const BufferUse use = UseOf(p_, d, in, k);
      const BufferRef& ref = use.ref;
      if (!communicated_[static_cast<size_t>(device)][static_cast<size_t>(ref.tensor)]) continue;
      AddSlot(device, use, step.i, list);
      if (k == 0) {
        op.label = static_cast<int32_t>(p_.segments.size()) + ref.tensor;
        if (ref.microbatch.present()) {
          op.microbatch = static_cast<int32_t>(ref.microbatch.value(step.i));
        }
      }
    }
  }
  op.slot_count = static_cast<int32_t>(list.slots.size()) - op.first_slot;
  if (in.code == OpCode::kSend) {
    const BufferRef& ref = d.operands[static_cast<size_t>(in.first_operand)];
    op.event = EventKind::kTransfer;
    op.lane = LaneNumber(LaneOf(device, in));
    op.flow = MessageFlow(device, in.target, p_.BytesOf(ref.tensor, ref.slice));
    if (model_ == LinkModel::kChannels) {
      if (const auto key = JobKeyOf(device, step.section, in)) op.job = job_ids_.at(*key);
    }
  }
  if (in.code == OpCode::kRecv) op.lane = LaneNumber(LaneOf(device, in));
  if (in.code == OpCode::kSend || in.code == OpCode::kRecv) {
    const BufferRef& ref = d.operands[static_cast<size_t>(in.first_operand)];
    op.seconds = OwnSeconds(device, static_cast<double>(p_.BytesOf(ref.tensor, ref.slice).value));
  }
  if (in.code == OpCode::kCollective) {
    op.event = EventKind::kCollective;
    op.lane = in.target;
    op.flow = CollectiveFlow(device, in);
    op.seconds = OwnSeconds(device, BytesMoved(in.kind, p_.group(in.target).devices.size(),
                                               static_cast<double>(CollectiveBytes(device, in))));
  }
  return op;
}

double Compiler::OwnSeconds(int32_t device, double bytes) const {
  return cluster_.type_of(devices_[static_cast<size_t>(device)]).MessageSeconds(bytes).value;
}

// Of the whole tensors, not this member's part.
int64_t Compiler::CollectiveBytes(int32_t device, const Instruction& in) const {
  const DeviceProgram& d = p_.devices[static_cast<size_t>(device)];
  int64_t bytes = 0;
  for (int32_t k = 0; k < in.operand_count; ++k) {
    const BufferRef& ref = d.operands[static_cast<size_t>(in.first_operand + k)];
    const int64_t whole = DividedBytes(p_, in, ref).value;
    bytes += in.half ? whole / SizeOf(p_.tensor(ref.tensor).dtype) * SizeOf(DType::kF16) : whole;
  }
  return bytes;
}

int32_t Compiler::SlotOf(int32_t device, const BufferKey& key) {
  auto& slots = slots_[static_cast<size_t>(device)];
  return slots.try_emplace(key, static_cast<int32_t>(slots.size())).first->second;
}

void Compiler::AddSlot(int32_t device, const BufferUse& use, int64_t i, CompiledList& list) {
  list.slots.push_back(2 * SlotOf(device, KeyOf(use.ref, i)) + (use.alone ? 1 : 0));
}

int32_t Compiler::PairOf(int32_t from, int32_t to) {
  return pairs_.try_emplace(Pack(from, to), static_cast<int32_t>(pairs_.size())).first->second;
}

int32_t Compiler::LaneNumber(const MessageLane& lane) {
  const uint64_t key = Pack(PairOf(lane.from, lane.to), lane.tag);
  return lanes_.try_emplace(key, static_cast<int32_t>(lanes_.size())).first->second;
}

int32_t Compiler::AddFlow(const CommCost& cost) {
  auto flow = std::make_unique<CompiledFlow>();
  flow->bytes = cost.loads;
  flow->spec = FlowOf(cost, flow->loads);
  flows_.push_back(std::move(flow));
  return static_cast<int32_t>(flows_.size()) - 1;
}

int32_t Compiler::MessageFlow(int32_t from, int32_t to, Bytes bytes) {
  const auto [found, is_new] = message_flows_.try_emplace({from, to, bytes.value}, -1);
  if (is_new) {
    found->second = AddFlow(network_.Transfer(devices_[static_cast<size_t>(from)],
                                              devices_[static_cast<size_t>(to)], bytes));
    flows_.back()->payload = bytes;
    flows_.back()->ends = {devices_[static_cast<size_t>(from)], devices_[static_cast<size_t>(to)]};
    flows_.back()->spec.stream = PairOf(from, to);
  }
  return found->second;
}

int32_t Compiler::CollectiveFlow(int32_t device, const Instruction& in) {
  const auto& members = p_.group(in.target).devices;
  const int64_t bytes = CollectiveBytes(device, in);
  const auto [found, is_new] =
      collective_flows_.try_emplace({in.target, static_cast<int32_t>(in.kind),
                                     static_cast<int32_t>(in.algorithm), in.shape, in.tag, bytes},
                                    -1);
  if (!is_new) return found->second;
  std::vector<DeviceId> group;
  for (const int32_t member : members) group.push_back(devices_[static_cast<size_t>(member)]);
  std::vector<Bytes> sizes = {Bytes{bytes}};
  if (in.shape >= 0) {
    const CollectiveShape& shape = p_.shapes[static_cast<size_t>(in.shape)];
    sizes = CollectiveSizes(in.kind, shape, Bytes{bytes});
  }
  const CommCost cost = network_.Collective({in.kind, group, sizes, in.algorithm, in.tag});
  found->second = AddFlow(cost);
  for (const DeviceTraffic& traffic : cost.traffic) {
    const auto rank = std::find(group.begin(), group.end(), traffic.device) - group.begin();
    flows_.back()->traffic.push_back(
        {members[static_cast<size_t>(rank)], traffic.sent, traffic.received});
  }
  flows_.back()->ends = std::move(group);
  return found->second;
}

std::vector<std::string> Compiler::Labels() const {
  std::vector<std::string> labels;
  for (const Segment& segment : p_.segments) labels.push_back(segment.name);
  for (const ProgramTensor& tensor : p_.tensors) labels.push_back(tensor.name);
  return labels;
}

}  // namespace heddle
