#include <fmt/format.h>

#include <iterator>

#include "program/text/program_text.h"

namespace heddle {
namespace {

constexpr std::array<std::string_view, kPortUseCount> kUses = {"reads", "consumes",    "writes",
                                                               "adds",  "accumulates", "changes"};
constexpr std::array<std::string_view, kSegmentPhaseCount> kPhases = {
    "forward", "backward", "backward_input", "backward_weight", "update", "other"};
constexpr std::array<std::string_view, kUpdateRuleCount> kRules = {
    "", "flush", "async stash", "async vertical", "async none", "async 2bw", "local"};
constexpr std::array<std::string_view, kSectionCount> kSections = {"prologue", "body", "epilogue"};

class Printer {
 public:
  explicit Printer(const Program& program) : p_(program) {}

  std::string Print() {
    Header();
    Devices();
    Tables();
    Segments();
    for (int s = 0; s < kSectionCount; ++s) PrintSection(static_cast<Section>(s));
    return std::move(out_);
  }

  std::string Buffer(const BufferRef& ref) {
    AppendBuffer(ref);
    return std::move(out_);
  }

  std::string One(const DeviceProgram& device, const Instruction& in) {
    PrintOne(device, in);
    return std::move(out_);
  }

 private:
  template <class... Args>
  void Put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  // In quotes where the reader would not take it as one word.
  static std::string Word(const std::string& text) {
    const bool plain = !text.empty() && text.find_first_of(" \t\r") == std::string::npos &&
                       !text.starts_with("//");
    return plain ? text : '"' + text + '"';
  }

  void Header() {
    Put("heddle-program 1\nstrategy {}\n", Word(p_.strategy));
    if (!p_.model.empty()) Put("model \"{}\" {}\n", p_.model, Word(p_.model_hash));
    if (p_.profile_batch > 0) Put("profiled {} {}\n", p_.profile_batch, Word(p_.profile_device));
    if (!p_.cluster_hash.empty()) Put("cluster {}\n", Word(p_.cluster_hash));
    Put("samples {} as", p_.samples());
    const auto& rows = p_.microbatch_rows;
    for (size_t i = 0; i < rows.size();) {
      size_t run = 1;
      while (i + run < rows.size() && rows[i + run] == rows[i]) ++run;
      Put(" {}", rows[i]);
      if (run > 1) Put("*{}", run);
      i += run;
    }
    Put("\nupdates {}\n", p_.updates);
    Rule();
    Put("layers {}\n", p_.layers);
  }

  void Rule() {
    if (p_.rule == UpdateRule::kUnstated) return;
    Put("update {}", NameOf(p_.rule));
    for (const int64_t steps : p_.local_steps) Put(" {}", steps);
    out_ += '\n';
  }

  void Devices() {
    out_ += '\n';
    for (size_t d = 0; d < p_.devices.size(); ++d) {
      Put("device {} \"{}\"", d, p_.devices[d].name);
      if (!p_.devices[d].holds.empty()) Put(" holds");
      for (const BufferRef& ref : p_.devices[d].holds) {
        out_ += ' ';
        AppendBuffer(ref);
      }
      out_ += '\n';
    }
  }

  void Tables() {
    if (!p_.groups.empty()) out_ += '\n';
    for (const Group& group : p_.groups) {
      Put("group {}", group.name);
      for (const int32_t device : group.devices) Put(" {}", device);
      out_ += '\n';
    }
    if (!p_.channels.empty()) out_ += '\n';
    for (const Channel& channel : p_.channels) {
      Put("channel");
      for (const int32_t device : channel.ends[0]) Put(" {}", device);
      Put(" |");
      for (const int32_t device : channel.ends[1]) Put(" {}", device);
      Put(" {}\n", channel.half_duplex ? "half" : "full");
    }
    if (!p_.tensors.empty()) out_ += '\n';
    for (const ProgramTensor& tensor : p_.tensors) {
      Put("tensor {} {}[{}] {}\n", tensor.name, NameOf(tensor.dtype), fmt::join(tensor.shape, ","),
          NameOf(tensor.role));
    }
  }

  void Segments() {
    if (!p_.segments.empty()) out_ += '\n';
    for (const Segment& segment : p_.segments) {
      Put("segment {} {}", segment.name, NameOf(segment.phase));
      if (segment.first_layer >= 0) {
        Put(" layers {}..{}", segment.first_layer, segment.last_layer);
      }
      if (segment.rows.size() > 0) Put(" rows {}:{}", segment.rows.begin, segment.rows.end);
      if (segment.recompute) Put(" recompute");
      if (segment.joint) Put(" joint");
      if (segment.scale != 1) Put(" scale {}", ExactNumber(segment.scale));
      if (segment.time) Put(" time {} s", ExactNumber(segment.time->value));
      if (segment.scratch.value != 0) Put(" scratch {}", segment.scratch.value);
      if (segment.first_scratch.value != 0) Put(" first {}", segment.first_scratch.value);
      out_ += '\n';
      if (!segment.ops.empty()) {
        Put("  ops");
        for (const SegmentOp& op : segment.ops) PrintOp(op);
        out_ += '\n';
      }
      for (int use = 0; use < kPortUseCount; ++use) Ports(segment, static_cast<PortUse>(use));
    }
  }

  void PrintOp(const SegmentOp& op) {
    Put(" {}", p_.NameOf(op));
    if (op.shards < 0) return;
    char separator = '[';
    for (const auto& [letter, range] : p_.ShardsOf(op)) {
      Put("{}{}={}:{}", separator, letter, range.begin, range.end);
      separator = ',';
    }
    out_ += ']';
  }

  void Ports(const Segment& segment, PortUse use) {
    bool any = false;
    for (const Port& port : segment.ports) {
      if (port.use != use) continue;
      if (!any) Put("  {}", NameOf(use));
      any = true;
      out_ += ' ';
      Name(port.tensor, port.form);
      if (port.per_microbatch) out_ += '#';
      if (port.per_replica) out_ += '^';
      if (port.versioned) out_ += '@';
      if (port.version_offset != 0) Put("{:+}", port.version_offset);
      SliceText(port.tensor, port.slice);
    }
    if (any) out_ += '\n';
  }

  void PrintSection(Section section) {
    if (!p_.has_section(section)) return;
    Put("\n{}\n", NameOf(section));
    for (size_t d = 0; d < p_.devices.size(); ++d) {
      const DeviceProgram& device = p_.devices[d];
      if (device.list(section).empty()) continue;
      Put("on {}\n", d);
      for (const Instruction& in : device.list(section)) {
        out_ += "  ";
        PrintOne(device, in);
        out_ += '\n';
      }
    }
  }

  void PrintOne(const DeviceProgram& device, const Instruction& in) {
    const BufferRef* operands = device.operands.data() + in.first_operand;
    switch (in.code) {
      case OpCode::kCompute:
        Put("compute {}", p_.segment(in.target).name);
        if (in.microbatch.present()) out_ += ' ';
        IndexAfter('#', in.microbatch);
        if (in.replica >= 0) Put(" ^{}", in.replica);
        if (in.version.present()) out_ += ' ';
        IndexAfter('@', in.version);
        if (in.accumulate) Put(" acc");
        break;
      case OpCode::kSend:
      case OpCode::kRecv:
        Put("{} ", in.code == OpCode::kSend ? "send" : "recv");
        AppendBuffer(operands[0]);
        Put(" {} {}", in.code == OpCode::kSend ? "to" : "from", in.target);
        if (in.tag != 0) Put(" tag {}", in.tag);
        break;
      case OpCode::kCollective:
        PrintCollective(in, operands);
        break;
      case OpCode::kWait:
      case OpCode::kFree:
        Put("{}", in.code == OpCode::kWait ? "wait" : "free");
        List(operands, in.operand_count);
        break;
      case OpCode::kAlias:
        Put("alias ");
        AppendBuffer(operands[0]);
        Put(" = ");
        AppendBuffer(operands[1]);
        break;
    }
    if (in.on_compute) Put(" on compute");
  }

  void PrintCollective(const Instruction& in, const BufferRef* operands) {
    Put("{}", NameOf(in.kind));
    List(operands, in.operand_count);
    if (in.output_count > 0) {
      Put(" ->");
      List(operands + in.operand_count, in.output_count);
    }
    Put(" over {}", p_.group(in.target).name);
    if (in.kind == CollectiveKind::kBroadcast) Put(" root {}", in.tag);
    if (in.shape >= 0) {
      const CollectiveShape& shape = p_.shapes[static_cast<size_t>(in.shape)];
      PrintDivision(shape.from);
      if (in.kind == CollectiveKind::kAllToAll) {
        Put(" to");
        PrintDivision(shape.to);
      }
    }
    Put(" {}", NameOf(in.algorithm));
    if (in.half) Put(" as f16");
  }

  void PrintDivision(const Division& division) {
    if (division.dim >= 0) Put(" dim {}", division.dim);
    Put(" sizes {}", fmt::join(division.sizes, ","));
  }

  void List(const BufferRef* operands, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      out_ += ' ';
      AppendBuffer(operands[i]);
    }
  }

  void AppendBuffer(const BufferRef& ref) {
    Name(ref.tensor, ref.form);
    IndexAfter('#', ref.microbatch);
    if (ref.replica >= 0) Put("^{}", ref.replica);
    IndexAfter('@', ref.version);
    SliceText(ref.tensor, ref.slice);
  }

  void Name(int32_t tensor, int32_t form) {
    out_ += p_.tensor(tensor).name;
    if (form >= 0) Put("~{}", p_.forms[static_cast<size_t>(form)]);
  }

  void IndexAfter(char mark, Index index) {
    if (!index.present()) return;
    out_ += mark;
    if (!index.relative()) {
      Put("{}", index.offset);
      return;
    }
    if (index.coefficient != 1) Put("{}", index.coefficient);
    out_ += 'i';
    if (index.offset != 0) Put("{:+}", index.offset);
  }

  void SliceText(int32_t tensor, int32_t slice) {
    if (slice < 0) return;
    const Slice& ranges = p_.slices[static_cast<size_t>(slice)];
    const auto& shape = p_.tensor(tensor).shape;
    const auto whole = [&](size_t axis) {
      return ranges[axis].begin == 0 && ranges[axis].end == shape[axis];
    };
    size_t shown = ranges.size();
    while (shown > 1 && whole(shown - 1)) --shown;
    for (size_t axis = 0; axis < shown; ++axis) {
      out_ += axis == 0 ? '[' : ',';
      if (whole(axis)) {
        out_ += ':';
      } else {
        Put("{}:{}", ranges[axis].begin, ranges[axis].end);
      }
    }
    out_ += ']';
  }

  const Program& p_;
  std::string out_;
};

}  // namespace

std::string_view NameOf(PortUse use) { return kUses[static_cast<size_t>(use)]; }
std::string_view NameOf(SegmentPhase phase) { return kPhases[static_cast<size_t>(phase)]; }
std::string_view NameOf(UpdateRule rule) { return kRules[static_cast<size_t>(rule)]; }
std::string_view NameOf(Section section) { return kSections[static_cast<size_t>(section)]; }

std::string PrintProgram(const Program& program) { return Printer(program).Print(); }

std::string PrintInstruction(const Program& program, const DeviceProgram& device,
                             const Instruction& instruction) {
  return Printer(program).One(device, instruction);
}

std::string PrintBuffer(const Program& program, const BufferRef& buffer) {
  return Printer(program).Buffer(buffer);
}

}  // namespace heddle
