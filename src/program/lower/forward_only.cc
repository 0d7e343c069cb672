#include "program/lower/forward_only.h"

#include <set>
#include <unordered_map>

#include "program/program_tables.h"
#include "program/unroll.h"

namespace heddle {
namespace {

bool Stays(const Program& program, const DeviceProgram& device, const Instruction& in) {
  if (in.code == OpCode::kCompute) {
    const Segment& segment = program.segment(in.target);
    return segment.phase == SegmentPhase::kForward && !segment.recompute;
  }
  if (in.code != OpCode::kSend && in.code != OpCode::kRecv) return false;
  const BufferRef& ref = device.operands[static_cast<size_t>(in.first_operand)];
  return program.tensor(ref.tensor).role == Role::kActivation;
}

// Activations that an instruction touches.
std::vector<BufferRef> Touched(const Program& program, const DeviceProgram& device,
                               const Instruction& in) {
  std::vector<BufferRef> refs;
  if (in.code == OpCode::kCompute) {
    for (const Port& port : program.segment(in.target).ports) {
      if (program.tensor(port.tensor).role == Role::kActivation) {
        refs.push_back(BufferOf(port, in));
      }
    }
  } else {
    refs.push_back(device.operands[static_cast<size_t>(in.first_operand)]);
  }
  return refs;
}

// A buffer goes after its last use; one that was sent, at the end, so that nothing waits for the
// receiver in between.
void KeepForward(const Program& program, const DeviceProgram& from, int32_t d,
                 ProgramTables& tables) {
  struct Life {
    BufferRef ref;
    size_t last = 0;
    bool sent = false;
  };
  std::unordered_map<BufferKey, size_t> index;
  std::vector<Life> lives;
  std::vector<const Instruction*> kept;
  for (const Instruction& in : from.list(Section::kBody)) {
    if (!Stays(program, from, in)) continue;
    for (BufferRef ref : Touched(program, from, in)) {
      const auto [found, is_new] = index.try_emplace(KeyOf(ref, 0), lives.size());
      ref.slice = -1;
      if (is_new) lives.push_back({ref});
      lives[found->second].last = kept.size();
      lives[found->second].sent |= in.code == OpCode::kSend;
    }
    kept.push_back(&in);
  }
  std::vector<std::vector<BufferRef>> freed(kept.size());
  for (const Life& life : lives) freed[life.sent ? kept.size() - 1 : life.last].push_back(life.ref);
  for (size_t k = 0; k < kept.size(); ++k) {
    std::vector<BufferRef> operands;
    for (int32_t o = 0; o < kept[k]->operand_count; ++o) {
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
