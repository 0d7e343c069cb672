#include "program/proof/proof_walk.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {
namespace {

constexpr size_t kNoBuffer = BufferNames::kFreed;

}  // namespace

ProofWalk::ProofWalk(const Program& program, const Graph* graph, const std::vector<Step>& steps,
                     VersionRules& rules)
    : p_(program),
      opaque_(graph == nullptr),
      steps_(steps),
      rules_(rules),
      terms_(graph),
      sums_(program, graph, terms_, rules),
      segments_(program, graph, boxes_, terms_, sums_, rules),
      exchange_(program, boxes_, terms_, sums_, rules),
      devices_(program.devices.size()) {
  for (const Group& group : program.groups) groups_.emplace_back(group.devices.size());
  for (size_t d = 0; d < devices_.size(); ++d) {
    for (const BufferRef& ref : program.devices[d].holds) {
      HeldBuffer& buffer = devices_[d].buffers[FindOrMake(devices_[d], ref, 0)];
      const BoxId box = segments_.BoxOf(ref.tensor, ref.slice, {});
      if (ElementsOf(boxes_[box]) > 0) buffer.parts.push_back({box});
    }
  }
}

Proof ProofWalk::Run() {
  for (size_t d = 0; d < devices_.size(); ++d) Wake(static_cast<int32_t>(d));
  while (!ready_.empty() && !done()) {
    const int32_t device = ready_.front();
    ready_.pop_front();
    devices_[static_cast<size_t>(device)].queued = false;
    Walk(device);
  }
  for (const Device& device : devices_) {
    if (device.step < steps_.size()) Unknown("its lists do not come to an end");
  }
  if (!done()) CheckEnd();
  return std::move(proof_);
}

void ProofWalk::Found(ProofFault fault, int32_t device, std::string message) {
  if (!done()) proof_.finding = {fault, device, std::move(message)};
}

void ProofWalk::Unknown(std::string why) {
  if (!done()) proof_.unknown = std::move(why);
}

void ProofWalk::Wake(int32_t device) {
  Device& state = devices_[static_cast<size_t>(device)];
  if (state.queued) return;
  state.queued = true;
  state.awaited = SIZE_MAX;
  ready_.push_back(device);
}

void ProofWalk::Walk(int32_t device) {
  Device& state = devices_[static_cast<size_t>(device)];
  const DeviceProgram& d = p_.devices[static_cast<size_t>(device)];
  for (; state.step < steps_.size(); ++state.step, state.index = 0) {
    const auto& list = d.list(steps_[state.step].section);
    for (; state.index < list.size(); ++state.index) {
      if (done() || !Try(device, list[state.index], steps_[state.step].i)) return;
    }
  }
}

bool ProofWalk::Try(int32_t device, const Instruction& in, int64_t i) {
  Device& state = devices_[static_cast<size_t>(device)];
  const BufferRef* operands =
      p_.devices[static_cast<size_t>(device)].operands.data() + in.first_operand;
  switch (in.code) {
    case OpCode::kCompute:
      return TryCompute(device, in, i);
    case OpCode::kSend:
      return TrySend(device, in, i);
    case OpCode::kRecv:
      return TryReceive(device, in, i);
    case OpCode::kCollective:
      return TryCollective(device, in, i);
    case OpCode::kFree:
      return TryFree(state, in, operands, i);
    case OpCode::kAlias:
      return TryAlias(state, operands, i);
    case OpCode::kWait:
      return true;  // what uses the buffers waits by itself
  }
  return true;
}

// --- Buffers -----------------------------------------------------------------------------------

size_t ProofWalk::FindOrMake(Device& device, const BufferRef& ref, int64_t i) {
  return MakeNamed(device, device.names[KeyOf(ref, i)]);
}

size_t ProofWalk::MakeNamed(Device& device, size_t& name) {
  if (name != kNoBuffer) return name;
  if (device.spare.empty()) {
    name = device.buffers.size();
    device.buffers.emplace_back();
  } else {
    name = device.spare.back();
    device.spare.pop_back();
    device.buffers[name].parts.clear();
    device.buffers[name].names = 1;
  }
  return name;
}

void ProofWalk::Release(Device& device, size_t& name) {
  if (name == kNoBuffer) return;
  if (--device.buffers[name].names == 0) device.spare.push_back(name);
  name = kNoBuffer;
}

bool ProofWalk::TryFree(Device& device, const Instruction& in, const BufferRef* operands,
                        int64_t i) {
  for (int32_t k = 0; k < in.operand_count; ++k) {
    const size_t* name = device.names.Find(KeyOf(operands[k], i));
    const bool there = name != nullptr && *name != kNoBuffer;
    if (there && IsPending(device, *name)) return false;
  }
  for (int32_t k = 0; k < in.operand_count; ++k) {
    size_t* name = device.names.Find(KeyOf(operands[k], i));
    if (name != nullptr) Release(device, *name);
  }
  return true;
}

bool ProofWalk::TryAlias(Device& device, const BufferRef* operands, int64_t i) {
  const size_t* old = device.names.Find(KeyOf(operands[1], i));
  if (old == nullptr || *old == kNoBuffer) return true;
  const int32_t name = operands[0].tensor, known = operands[1].tensor;
  const bool alike = opaque_ && p_.tensor(name).role == p_.tensor(known).role;
  if (name != known && !alike) {
    Unknown(fmt::format("{} is an alias of {}", p_.tensor(name).name, p_.tensor(known).name));
    return true;
  }
  const size_t buffer = *old;
  if (IsPending(device, buffer)) return false;
  ++device.buffers[buffer].names;
  device.names[KeyOf(operands[0], i)] = buffer;
  return true;
}

// What lies outside the box stays.
void ProofWalk::Replace(int32_t tensor, BoxId box, HeldParts made, HeldParts& parts) {
  for (const HeldPart& part : parts) {
    const BoxId common = boxes_.Intersection(part.box, box);
    if (common == part.box) continue;
    if (common != BoxTable::kNothing) {
      return Unknown(fmt::format("a part of {} is changed", p_.tensor(tensor).name));
    }
    made.push_back(part);
  }
  parts = std::move(made);
}

// --- Messages ----------------------------------------------------------------------------------

bool ProofWalk::TrySend(int32_t device, const Instruction& in, int64_t i) {
  Device& state = devices_[static_cast<size_t>(device)];
  const BufferRef& ref =
      p_.devices[static_cast<size_t>(device)].operands[static_cast<size_t>(in.first_operand)];
  MessageEnd end{device, kNoBuffer, {}};
  const size_t* name = Tracked(ref.tensor) ? state.names.Find(KeyOf(ref, i)) : nullptr;
  if (name != nullptr && *name != kNoBuffer) {
    const HeldBuffer& buffer = state.buffers[*name];
    if (IsPending(state, *name)) return false;
    const bool all = ref.slice < 0 || segments_.IsStatistic(ref.tensor);
    end.parts = all ? buffer.parts
                    : exchange_.Restricted(ref.tensor, segments_.BoxOf(ref.tensor, ref.slice, {}),
                                           buffer.parts);
  }
  const HeldParts parts = end.parts;
  if (const auto other = Meet(LaneOf(device, in), true, std::move(end))) Deliver(*other, parts);
  return true;
}

bool ProofWalk::TryReceive(int32_t device, const Instruction& in, int64_t i) {
  Device& state = devices_[static_cast<size_t>(device)];
  const BufferRef& ref =
      p_.devices[static_cast<size_t>(device)].operands[static_cast<size_t>(in.first_operand)];
  MessageEnd end{device, kNoBuffer, {}};
  if (Tracked(ref.tensor)) {
    end.buffer = FindOrMake(state, ref, i);
    ++state.buffers[end.buffer].pending;
  }
  const size_t buffer = end.buffer;
  if (const auto other = Meet(LaneOf(device, in), false, std::move(end))) {
    Deliver({device, buffer, {}}, other->parts);
  }
  return true;
}

std::optional<ProofWalk::MessageEnd> ProofWalk::Meet(const MessageLane& at, bool sends,
                                                     MessageEnd end) {
  Lane& lane = lanes_[at];
  if (lane.met == lane.waiting.size() || lane.sends == sends) {
    if (lane.met == lane.waiting.size()) {
      lane.waiting.clear();
      lane.met = 0;
    }
    lane.sends = sends;
    lane.waiting.push_back(std::move(end));
    return std::nullopt;
  }
  return std::move(lane.waiting[lane.met++]);
}

void ProofWalk::Deliver(const MessageEnd& to, const HeldParts& parts) {
  if (to.buffer == kNoBuffer) return;
  HeldBuffer& buffer = devices_[static_cast<size_t>(to.device)].buffers[to.buffer];
  buffer.parts.insert(buffer.parts.end(), parts.begin(), parts.end());
  Arrived(to.device, to.buffer);
}

void ProofWalk::Arrived(int32_t device, size_t buffer) {
  Device& state = devices_[static_cast<size_t>(device)];
  const bool complete = --state.buffers[buffer].pending == 0;
  if (complete && state.awaited == buffer) Wake(device);
}

// --- Collectives -------------------------------------------------------------------------------

bool ProofWalk::TryCollective(int32_t device, const Instruction& in, int64_t i) {
  Device& state = devices_[static_cast<size_t>(device)];
  const BufferRef* operands =
      p_.devices[static_cast<size_t>(device)].operands.data() + in.first_operand;
  CollectiveEnd end{device, &in, i, {}, {}, {}};
  const bool in_place = in.output_count == 0;
  for (int32_t k = 0; k < in.operand_count; ++k) {
    const size_t buffer = FindOrMake(state, operands[k], i);
    if (IsPending(state, buffer)) return false;
    end.inputs.push_back(buffer);
  }
  for (int32_t k = 0; k < in.output_count; ++k) {
    end.outputs.push_back(FindOrMake(state, operands[in.operand_count + k], i));
    if (IsPending(state, end.outputs.back())) return false;
  }
  for (const size_t buffer : end.inputs) {
    end.before.push_back(state.buffers[buffer].parts);
    if (in_place) ++state.buffers[buffer].pending;
  }
  for (const size_t buffer : end.outputs) ++state.buffers[buffer].pending;
  GroupMeeting<CollectiveEnd>& group = groups_[static_cast<size_t>(in.target)];
  group.Post(MemberOf(p_.group(in.target), device), std::move(end));
  if (!group.complete()) return true;
  std::vector<CollectiveEnd> ends = group.front();
  group.Pop();
  std::sort(ends.begin(), ends.end(), [&](const CollectiveEnd& a, const CollectiveEnd& b) {
    return MemberOf(p_.group(in.target), a.device) < MemberOf(p_.group(in.target), b.device);
  });
  Exchange(ends);
  return true;
}

void ProofWalk::Exchange(const std::vector<CollectiveEnd>& ends) {
  const Instruction& in = *ends[0].in;
  if (in.shape >= 0) {
    const CollectiveShape& shape = p_.shapes[static_cast<size_t>(in.shape)];
    const bool two = in.kind == CollectiveKind::kAllToAll;
    if (shape.from.dim < 0 || (two && shape.to.dim < 0)) {
      return Unknown("a collective divides flattened buffers");
    }
  }
  const bool in_place = in.output_count == 0;
  for (size_t k = 0; k < ends[0].inputs.size(); ++k) {
    std::vector<ExchangeSide> sides;
    int32_t tensor = -1;
    for (const CollectiveEnd& end : ends) {
      const BufferRef* operands =
          p_.devices[static_cast<size_t>(end.device)].operands.data() + end.in->first_operand;
      tensor = operands[k].tensor;
      ExchangeSide& side = sides.emplace_back();
      side.before = end.before[k];
      if (segments_.IsStatistic(tensor)) continue;  // its parts say all
      if (operands[k].slice >= 0) side.from = segments_.BoxOf(tensor, operands[k].slice, {});
      if (in_place) continue;
      const BufferRef& out = operands[static_cast<size_t>(in.operand_count) + k];
      const bool named = out.slice >= 0 || in.kind == CollectiveKind::kAllGather;
      if (named) side.to = segments_.BoxOf(tensor, out.slice, {});
    }
    const size_t lead = segments_.IsStatistic(tensor) ? 1 : 0;
    const std::string wrong = exchange_.Run(in, tensor, lead, sides);
    if (!wrong.empty()) {
      return Found(ProofFault::kNotWhole, ends[0].device,
                   fmt::format("in a collective of group {}, {}", p_.group(in.target).name, wrong));
    }
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      Device& state = devices_[static_cast<size_t>(ends[rank].device)];
      const size_t number = in_place ? ends[rank].inputs[k] : ends[rank].outputs[k];
      HeldBuffer& buffer = state.buffers[number];
      const BoxId from = sides[rank].from;
      if (in_place && from != BoxTable::kNothing) {
        Replace(tensor, from, std::move(sides[rank].after), buffer.parts);
      } else {
        buffer.parts = std::move(sides[rank].after);
      }
      Arrived(ends[rank].device, number);
    }
  }
}

// --- The end -----------------------------------------------------------------------------------

// Every weight that a device holds was updated once a step, or came from who updates it.
void ProofWalk::CheckEnd() {
  if (p_.updates == 0) return;
  const int64_t bodies = std::count_if(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.section == Section::kBody;
  });
  const int64_t expected = rules_.VersionAfter(bodies);
  for (size_t d = 0; d < devices_.size(); ++d) {
    Device& device = devices_[d];
    for (const BufferRef& ref : p_.devices[d].holds) {
      const ProgramTensor& tensor = p_.tensor(ref.tensor);
      if (tensor.role != Role::kParameter && tensor.role != Role::kState) continue;
      const auto wrong = [&](const std::string& what) {
        Found(ProofFault::kWrongVersion, static_cast<int32_t>(d),
              fmt::format("{} on device {} is {} at the end, and should be {}", tensor.name, d,
                          what, rules_.Print(expected)));
      };
      const size_t* name = device.names.Find(KeyOf(ref, 0));
      if (name == nullptr || *name == kNoBuffer) {
        const auto newest = device.newest.find(ref.tensor);
        const int64_t version = newest == device.newest.end() ? 0 : newest->second;
        if (version != expected) wrong(rules_.Print(version));
        continue;
      }
      for (const HeldPart& part : device.buffers[*name].parts) {
        const SumTerms& terms = terms_.terms(part.state);
        const bool whole =
            terms.size() == 1 && terms[0].path == TermTable::kWholePath && terms[0].factor == 1;
        if (!whole) return wrong("not whole");
        if (terms[0].tag.begin != expected) return wrong(rules_.Print(terms[0].tag.begin));
      }
    }
  }
}

}  // namespace heddle
