// ProgramParser: the parser behind ParseProgram, line by line. Internal to program/.
// program_parse.cc reads header, tables and segments; program_parse_lists.cc buffers and
// instruction lists.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "program/text/program_text.h"
#include "program/text/program_words.h"

namespace heddle {

// No file may make the parser allocate much more than its own size.
inline constexpr int64_t kMostMicrobatches = 1 << 20;
inline constexpr int64_t kMostExtent = int64_t{1} << 48;
inline constexpr int64_t kMostElements = 100'000'000'000'000'000;  // bytes must fit 64 bits
inline constexpr int64_t kMostIndex = 1 << 30;

template <class Enum>
std::optional<Enum> FindByName(std::string_view name, int count) {
  for (int i = 0; i < count; ++i) {
    if (NameOf(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// Names to ids of one table.
class NameTable {
 public:
  bool Add(std::string_view name);
  std::optional<int32_t> Find(std::string_view name) const;
  std::string Suggest(std::string_view name) const;

 private:
  std::unordered_map<std::string, int32_t> ids_;
};

class ProgramParser {
 public:
  ProgramParser(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}
  Result<Program> Parse();

 private:
  Status ParseLine(LineWords& w);

  Status Strategy(LineWords& w);
  Status Model(LineWords& w);
  Status Profiled(LineWords& w);
  Status ClusterHash(LineWords& w);
  Status Samples(LineWords& w);
  Status Updates(LineWords& w);
  Status Rule(LineWords& w);
  Status Layers(LineWords& w);
  // Held buffers name tensors that come later in the file: remembered until its end.
  Status Device(LineWords& w);
  Status ResolveHolds();
  Status ParseGroup(LineWords& w);
  Status ParseChannel(LineWords& w);
  Status ParseTensor(LineWords& w);

  Status ParseSegment(LineWords& w);
  Status Ops(LineWords& w);
  Status Ports(PortUse use, LineWords& w);

  Result<int32_t> DeviceNumber(LineWords& w);
  Status NewName(NameTable& names, std::string_view name, std::string_view what, LineWords& w);
  Result<Range> ParseRange(std::string_view text, int64_t most, LineWords& w);
  // Takes "name" or "name~form" off the front of a word.
  Status TakeName(std::string_view& word, int32_t& tensor, int32_t& form, LineWords& w);
  // "[0:3]" or "[:,0:5]"; missing trailing axes are whole. A whole slice is -1.
  Result<int32_t> ParseSlice(std::string_view brackets, int32_t tensor, LineWords& w);
  // "3", "i", "i+2", "4i-1"
  Result<Index> ParseIndex(std::string_view text, LineWords& w);
  // name[~form][#index][^replica][@index][slice]
  Result<BufferRef> Buffer(std::string_view word, LineWords& w);
  Status TakeMarks(std::string_view& word, Index& microbatch, int32_t& replica, Index& version,
                   LineWords& w);

  Status Begin(Section section, LineWords& w);
  Status ParseInstruction(std::string_view word, LineWords& w);
  Status ParseBodyOf(std::string_view word, Instruction& in, DeviceProgram& device, LineWords& w);
  Status Operand(int32_t& count, DeviceProgram& device, LineWords& w);
  Status Compute(Instruction& in, LineWords& w);
  Status Collective(Instruction& in, DeviceProgram& device, LineWords& w);
  // All-gather, reduce-scatter and all-to-all go from one buffer list to another and need sizes.
  Status CheckForm(const Instruction& in, LineWords& w);
  Status ParseDivision(Division& division, int64_t members, LineWords& w);

  struct Held {
    int64_t device;
    std::string word;
    std::string where;
  };

  std::string_view text_;
  std::string file_;
  int line_ = 0;
  bool started_ = false;
  int section_ = -1;
  int32_t device_ = -1;
  Program p_;
  NameTable groups_, tensors_, forms_, segments_, op_names_;
  std::map<Shards, int32_t> op_shards_;
  std::map<Slice, int32_t> slices_;
  std::map<CollectiveShape, int32_t> shapes_;
  std::vector<Held> held_;
};

}  // namespace heddle
