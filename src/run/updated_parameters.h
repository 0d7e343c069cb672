// The parameters that a device itself updates: not those that another one updates and sends it.
#pragma once

#include <unordered_set>

#include "program/program.h"

namespace heddle {

// Numbers of tensors.
inline std::unordered_set<int32_t> UpdatedParameters(const Program& program, int32_t device) {
  std::unordered_set<int32_t> updated;
  for (const Section section : {Section::kPrologue, Section::kBody, Section::kEpilogue}) {
    for (const Instruction& in : program.devices[static_cast<size_t>(device)].list(section)) {
      if (in.code != OpCode::kCompute) continue;
      const Segment& segment = program.segment(in.target);
      if (segment.phase != SegmentPhase::kUpdate) continue;
      for (const Port& port : segment.ports) {
        const bool writes = port.use != PortUse::kRead;
        if (writes && program.tensor(port.tensor).role == Role::kParameter) {
          updated.insert(port.tensor);
        }
      }
    }
  }
  return updated;
}

}  // namespace heddle
