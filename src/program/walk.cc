#include "program/walk.h"

#include <algorithm>

namespace heddle {

int32_t UseCount(const Program& program, const Instruction& in) {
  if (in.code == OpCode::kCompute) {
    return static_cast<int32_t>(program.segment(in.target).ports.size());
  }
  return in.operand_count + in.output_count;
}

BufferUse UseOf(const Program& program, const DeviceProgram& device, const Instruction& in,
                int32_t k) {
  if (in.code == OpCode::kCompute) {
    const Port& port = program.segment(in.target).ports[static_cast<size_t>(k)];
    return {BufferOf(port, in), port.use != PortUse::kRead};
  }
  return {device.operands[static_cast<size_t>(in.first_operand + k)], WritesOperand(in, k)};
}

std::vector<bool> CommunicatedTensors(const Program& program, const DeviceProgram& device) {
  std::vector<bool> communicated(program.tensors.size());
  for (const auto& list : device.sections) {
    for (const Instruction& in : list) {
      if (!Communicates(in.code)) continue;
      for (int32_t k = 0; k < UseCount(program, in); ++k) {
        const BufferRef& ref = device.operands[static_cast<size_t>(in.first_operand + k)];
        communicated[static_cast<size_t>(ref.tensor)] = true;
      }
    }
  }
  return communicated;
}

MessageLane LaneOf(int32_t device, const Instruction& in) {
  const bool sends = in.code == OpCode::kSend;
  return {sends ? device : in.target, sends ? in.target : device, in.tag};
}

size_t MemberOf(const Group& group, int32_t device) {
  return static_cast<size_t>(std::find(group.devices.begin(), group.devices.end(), device) -
                             group.devices.begin());
}

}  // namespace heddle
