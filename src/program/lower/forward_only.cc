#include "program/lower/forward_only.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "program/program_tables.h"
#include "program/unroll.h"

namespace heddle {
namespace {

bool IsForward(const Program& program, const Instruction& in) {
  if (in.code != OpCode::kCompute) return false;
  const Segment& segment = program.segment(in.target);
  return segment.phase == SegmentPhase::kForward && !segment.recompute;
}

// Buffers that an instruction touches.
std::vector<BufferRef> Operands(const Program& program, const DeviceProgram& device,
                                const Instruction& in) {
  std::vector<BufferRef> refs;
  if (in.code == OpCode::kCompute) {
    for (const Port& port : program.segment(in.target).ports) refs.push_back(BufferOf(port, in));
    return refs;
  }
  const auto first = device.operands.begin() + in.first_operand;
  refs.assign(first, first + in.operand_count + in.output_count);
  return refs;
}

// Forward, and what brings activations and parameters to it.
bool Stays(const Program& program, const DeviceProgram& device, const Instruction& in) {
  if (in.code == OpCode::kFree || in.code == OpCode::kWait) return false;
  if (in.code == OpCode::kCompute && !program.segment(in.target).ops.empty()) {
    return IsForward(program, in);
  }
  const std::vector<BufferRef> refs = Operands(program, device, in);
  return std::all_of(refs.begin(), refs.end(), [&](const BufferRef& ref) {
    const Role role = program.tensor(ref.tensor).role;
    return role == Role::kActivation || role == Role::kParameter;
  });
}

// Those of its buffers that do not outlive the body.
std::vector<BufferRef> Touched(const Program& program, const DeviceProgram& device,
                               const Instruction& in) {
  std::vector<BufferRef> refs = Operands(program, device, in);
  std::erase_if(refs, [&](const BufferRef& ref) {
    const Role role = program.tensor(ref.tensor).role;
    if (role == Role::kActivation) return false;
    return role != Role::kParameter ||
           std::any_of(device.holds.begin(), device.holds.end(),
                       [&](const BufferRef& held) { return KeyOf(held, 0) == KeyOf(ref, 0); });
  });
  return refs;
}

// Does the instruction make the buffer, rather than use one that is there?
bool Begins(const Program& program, const DeviceProgram& device, const Instruction& in,
            const BufferKey& key) {
  if (in.code == OpCode::kCollective) {
    const auto first = device.operands.begin() + in.first_operand + in.operand_count;
    return std::any_of(first, first + in.output_count,
                       [&](const BufferRef& ref) { return KeyOf(ref, 0) == key; });
  }
  if (in.code != OpCode::kCompute) return false;
  const std::vector<Port>& ports = program.segment(in.target).ports;
  return std::any_of(ports.begin(), ports.end(), [&](const Port& port) {
    return port.use == PortUse::kWrite && KeyOf(BufferOf(port, in), 0) == key;
  });
}

// A buffer goes after its last use; one that was sent, at the end, so that nothing waits for the
// receiver in between.
void KeepForward(const Program& program, const DeviceProgram& from, int32_t d,
                 ProgramTables& tables) {
  struct Life {
    BufferRef ref;
    size_t last = 0;
    bool sent = false;  // or gathered
  };
  std::unordered_map<BufferKey, size_t> index;
  std::vector<Life> lives;
  std::vector<const Instruction*> kept;
  // Exchanges after the last forward are for backward, or bring new weights; sends of activations
  // are for another device's forward.
  const std::vector<Instruction>& body = from.list(Section::kBody);
  const auto last = std::find_if(body.rbegin(), body.rend(),
                                 [&](const Instruction& in) { return IsForward(program, in); });
  for (auto it = body.begin(); it != body.end(); ++it) {
    const Instruction& in = *it;
    const bool message =
        (in.code == OpCode::kSend || in.code == OpCode::kRecv) &&
        program.tensor(from.operands[static_cast<size_t>(in.first_operand)].tensor).role ==
            Role::kActivation;
    if (it >= last.base() && !message) continue;
    if (!Stays(program, from, in)) continue;
    for (BufferRef ref : Touched(program, from, in)) {
      const auto [found, is_new] = index.try_emplace(KeyOf(ref, 0), lives.size());
      ref.slice = -1;
      const bool again = !is_new && Begins(program, from, in, found->first);
      if (again) lives[found->second].sent = false;  // it ends before its name is used again
      if (again) found->second = lives.size();
      if (is_new || again) lives.push_back({ref});
      lives[found->second].last = kept.size();
      lives[found->second].sent |= in.code == OpCode::kSend || in.code == OpCode::kCollective;
    }
    kept.push_back(&in);
  }
  std::vector<std::vector<BufferRef>> freed(kept.size());
  for (const Life& life : lives) freed[life.sent ? kept.size() - 1 : life.last].push_back(life.ref);
  for (size_t k = 0; k < kept.size(); ++k) {
    std::vector<BufferRef> operands;
    for (int32_t o = 0; o < kept[k]->operand_count + kept[k]->output_count; ++o) {
      operands.push_back(from.operands[static_cast<size_t>(kept[k]->first_operand + o)]);
    }
    tables.Emit(d, *kept[k], operands);
    if (!freed[k].empty()) tables.Emit(d, OpCode::kFree, freed[k]);
  }
}

}  // namespace

Program ForwardOnly(const Program& program) {
  Program forward = program;
  forward.updates = 0;
  for (DeviceProgram& device : forward.devices) {
    device.operands.clear();
    for (auto& section : device.sections) section.clear();
    std::erase_if(device.holds, [&](const BufferRef& ref) {
      return program.tensor(ref.tensor).role != Role::kParameter;
    });
  }
  // What a segment consumes was made for it alone, or is freed by its list: here only by its list.
  for (Segment& segment : forward.segments) {
    for (Port& port : segment.ports) {
      if (port.use == PortUse::kConsume) port.use = PortUse::kRead;
    }
  }
  ProgramTables tables(forward);
  for (size_t d = 0; d < program.devices.size(); ++d) {
    KeepForward(program, program.devices[d], static_cast<int32_t>(d), tables);
  }
  return forward;
}

}  // namespace heddle
