// ProgramTables: fills a Program's tables, each entry once.
//
//   ProgramTables tables(program);
//   int32_t x = tables.AddTensor({"x", DType::kF32, {4, 64}, Role::kActivation});
//   tables.Emit(device, send_instruction, {buffer});
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/program.h"

namespace heddle {

class ProgramTables {
 public:
  explicit ProgramTables(Program& program) : p_(program) {}

  int32_t AddTensor(ProgramTensor tensor);               // by name
  int32_t AddSlice(int32_t tensor, const Slice& slice);  // -1 when it is the whole tensor
  int32_t AddForm(const std::string& name);
  SegmentOp AddOp(const std::string& name);
  int32_t AddSegment(Segment segment);                    // a taken name gets a number added
  int32_t AddGroup(const std::vector<int32_t>& devices);  // named g0, g1, …

  void Emit(int32_t device, Instruction instruction, const std::vector<BufferRef>& operands,
            Section section = Section::kBody);
  void Emit(int32_t device, OpCode code, const std::vector<BufferRef>& operands,
            Section section = Section::kBody);

 private:
  Program& p_;
  std::unordered_map<std::string, int32_t> tensors_, forms_, ops_, segments_;
  std::unordered_map<std::string, int> suffixes_;  // the next to try for a taken name
  std::map<Slice, int32_t> slices_;
  std::map<std::vector<int32_t>, int32_t> groups_;
};

}  // namespace heddle
