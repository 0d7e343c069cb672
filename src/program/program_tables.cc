#include "program/program_tables.h"

namespace heddle {

int32_t ProgramTables::AddTensor(ProgramTensor tensor) {
  const auto [found, added] =
      tensors_.emplace(tensor.name, static_cast<int32_t>(p_.tensors.size()));
  if (added) p_.tensors.push_back(std::move(tensor));
  return found->second;
}

int32_t ProgramTables::AddSlice(int32_t tensor, const Slice& slice) {
  if (slice == p_.SliceOf(tensor, -1)) return -1;
  const auto [found, added] = slices_.emplace(slice, static_cast<int32_t>(p_.slices.size()));
  if (added) p_.slices.push_back(slice);
  return found->second;
}

int32_t ProgramTables::AddForm(const std::string& name) {
  const auto [found, added] = forms_.emplace(name, static_cast<int32_t>(p_.forms.size()));
  if (added) p_.forms.push_back(name);
  return found->second;
}

SegmentOp ProgramTables::AddOp(const std::string& name) {
  const auto [found, added] = ops_.emplace(name, static_cast<int32_t>(p_.op_names.size()));
  if (added) p_.op_names.push_back(name);
  return {found->second, -1};
}

int32_t ProgramTables::AddSegment(Segment segment) {
  const auto id = static_cast<int32_t>(p_.segments.size());
  if (!segments_.emplace(segment.name, id).second) {
    const std::string name = segment.name;
    int& suffix = suffixes_.try_emplace(name, 2).first->second;
    do {
      segment.name = name + "." + std::to_string(suffix++);
    } while (!segments_.emplace(segment.name, id).second);
  }
  p_.segments.push_back(std::move(segment));
  return id;
}

int32_t ProgramTables::AddGroup(const std::vector<int32_t>& devices) {
  const auto [found, added] = groups_.emplace(devices, static_cast<int32_t>(p_.groups.size()));
  if (added) p_.groups.push_back({"g" + std::to_string(found->second), devices});
  return found->second;
}

void ProgramTables::Emit(int32_t device, Instruction instruction,
                         const std::vector<BufferRef>& operands, Section section) {
  DeviceProgram& d = p_.devices[static_cast<size_t>(device)];
  instruction.first_operand = static_cast<int32_t>(d.operands.size());
  instruction.operand_count = static_cast<int32_t>(operands.size()) - instruction.output_count;
  d.operands.insert(d.operands.end(), operands.begin(), operands.end());
  d.sections[static_cast<size_t>(section)].push_back(instruction);
}

void ProgramTables::Emit(int32_t device, OpCode code, const std::vector<BufferRef>& operands,
                         Section section) {
  Instruction instruction;
  instruction.code = code;
  Emit(device, instruction, operands, section);
}

}  // namespace heddle
