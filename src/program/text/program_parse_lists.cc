#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "program/text/program_parser.h"

namespace heddle {

Result<int32_t> ProgramParser::DeviceNumber(LineWords& w) {
  HEDDLE_ASSIGN(const int64_t id,
                w.Integer("a device number", 0, static_cast<int64_t>(p_.devices.size()) - 1));
  return static_cast<int32_t>(id);
}

Status ProgramParser::NewName(NameTable& names, std::string_view name, std::string_view what,
                              LineWords& w) {
  if (!IsProgramName(name)) {
    return w.Bad(fmt::format("\"{}\" is not a name", name),
                 "use letters, digits, '_' and '.', starting with a letter");
  }
  if (names.Add(name)) return Ok();
  return w.Bad(fmt::format("{} {} is defined twice", what, name));
}

Result<Range> ProgramParser::ParseRange(std::string_view text, int64_t most, LineWords& w) {
  const size_t colon = std::min(text.find(':'), text.size());
  const auto begin = ParseInteger(text.substr(0, colon));
  const auto end = ParseInteger(text.substr(std::min(colon + 1, text.size())));
  if (!begin || !end || *begin < 0 || *end < *begin || *end > most) {
    return w.Bad(fmt::format("\"{}\" is not a range within {}", text, most), "e.g. 0:3");
  }
  return Range{*begin, *end};
}

Status ProgramParser::TakeName(std::string_view& word, int32_t& tensor, int32_t& form,
                               LineWords& w) {
  const size_t end = std::min(word.find_first_of("#^@["), word.size());
  const std::string_view full = word.substr(0, end);
  const size_t tilde = full.find('~');
  const auto found = tensors_.Find(full.substr(0, tilde));
  if (!found) {
    return w.Bad(fmt::format("unknown tensor \"{}\"", full.substr(0, tilde)),
                 tensors_.Suggest(full.substr(0, tilde)));
  }
  tensor = *found;
  if (tilde != std::string_view::npos) {
    const std::string_view name = full.substr(tilde + 1);
    if (!IsProgramName(name)) return w.Bad(fmt::format("\"{}\" is not a form", name));
    if (forms_.Add(name)) p_.forms.emplace_back(name);
    form = *forms_.Find(name);
  }
  word.remove_prefix(end);
  return Ok();
}

Result<int32_t> ProgramParser::ParseSlice(std::string_view brackets, int32_t tensor, LineWords& w) {
  if (brackets.empty()) return -1;
  const auto& shape = p_.tensor(tensor).shape;
  if (brackets.back() != ']') return w.Bad(fmt::format("\"{}\" lacks its ']'", brackets));
  const auto parts = SplitAt(brackets.substr(1, brackets.size() - 2), ',');
  if (parts.size() > shape.size()) {
    return w.Bad(fmt::format("\"{}\" has more axes than {}", brackets, p_.tensor(tensor).name));
  }
  Slice slice;
  bool whole = true;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    slice.push_back({0, shape[axis]});
    if (axis >= parts.size() || parts[axis] == ":") continue;
    HEDDLE_ASSIGN(slice.back(), ParseRange(parts[axis], shape[axis], w));
    whole = whole && slice.back() == Range{0, shape[axis]};
  }
  if (whole) return -1;
  const auto [found, added] = slices_.emplace(slice, static_cast<int32_t>(p_.slices.size()));
  if (added) p_.slices.push_back(std::move(slice));
  return found->second;
}

Result<Index> ProgramParser::ParseIndex(std::string_view text, LineWords& w) {
  const size_t i = text.find('i');
  std::optional<int64_t> coefficient = 0;
  std::optional<int64_t> offset;
  if (i == std::string_view::npos) {
    offset = ParseInteger(text);
  } else {
    coefficient = i == 0 ? 1 : ParseInteger(text.substr(0, i));
    std::string_view rest = text.substr(i + 1);
    if (!rest.empty() && rest[0] == '+') rest.remove_prefix(1);
    offset = rest.empty() && text.back() == 'i' ? 0 : ParseInteger(rest);
    if (coefficient && *coefficient == 0) coefficient.reset();
  }
  const auto within = [](const std::optional<int64_t>& value, int64_t most) {
    return value && *value >= -most && *value <= most;
  };
  if (!within(coefficient, kMostMicrobatches) || !within(offset, kMostIndex)) {
    return w.Bad(fmt::format("\"{}\" is not an index", text), "e.g. 3, i, i+2, 4i-1");
  }
  return Index{static_cast<int32_t>(*coefficient), static_cast<int32_t>(*offset)};
}

Result<BufferRef> ProgramParser::Buffer(std::string_view word, LineWords& w) {
  BufferRef ref;
  const size_t open = std::min(word.find('['), word.size());
  const std::string_view brackets = word.substr(open);
  word = word.substr(0, open);
  HEDDLE_RETURN_IF_ERROR(TakeName(word, ref.tensor, ref.form, w));
  HEDDLE_RETURN_IF_ERROR(TakeMarks(word, ref.microbatch, ref.replica, ref.version, w));
  HEDDLE_ASSIGN(ref.slice, ParseSlice(brackets, ref.tensor, w));
  return ref;
}

Status ProgramParser::TakeMarks(std::string_view& word, Index& microbatch, int32_t& replica,
                                Index& version, LineWords& w) {
  static constexpr std::string_view kMarks = "#^@";
  for (const char mark : kMarks) {
    if (word.empty() || word[0] != mark) continue;
    const size_t end = std::min(word.find_first_of(kMarks, 1), word.size());
    const std::string_view value = word.substr(1, end - 1);
    word.remove_prefix(end);
    if (mark == '^') {
      const auto number = ParseInteger(value);
      if (!number || *number < 0 || *number > kMostIndex) return w.Bad("bad replica number");
      replica = static_cast<int32_t>(*number);
    } else {
      HEDDLE_ASSIGN((mark == '#' ? microbatch : version), ParseIndex(value, w));
    }
  }
  if (word.empty()) return Ok();
  return w.Bad(fmt::format("unexpected \"{}\"", word), "marks come in the order # ^ @");
}

Status ProgramParser::Begin(Section section, LineWords& w) {
  if (static_cast<int>(section) <= section_) {
    return w.Bad(fmt::format("{} comes again or too late", NameOf(section)));
  }
  section_ = static_cast<int>(section);
  device_ = -1;
  return Ok();
}

Status ProgramParser::ParseInstruction(std::string_view word, LineWords& w) {
  if (const auto section = FindByName<Section>(word, kSectionCount)) return Begin(*section, w);
  if (word == "on") {
    HEDDLE_ASSIGN(device_, DeviceNumber(w));
    if (!p_.devices[static_cast<size_t>(device_)].sections[static_cast<size_t>(section_)].empty()) {
      return w.Bad(fmt::format("device {} has a list in this section already", device_));
    }
    return Ok();
  }
  if (device_ < 0) return w.Bad("an instruction before \"on <device>\"");
  DeviceProgram& device = p_.devices[static_cast<size_t>(device_)];
  Instruction in;
  in.first_operand = static_cast<int32_t>(device.operands.size());
  HEDDLE_RETURN_IF_ERROR(ParseBodyOf(word, in, device, w));
  if (w.Accept("on")) {
    HEDDLE_RETURN_IF_ERROR(w.Expect("compute"));
    in.on_compute = true;
  }
  device.sections[static_cast<size_t>(section_)].push_back(in);
  return Ok();
}

Status ProgramParser::ParseBodyOf(std::string_view word, Instruction& in, DeviceProgram& device,
                                  LineWords& w) {
  if (word == "compute") return Compute(in, w);
  if (word == "send" || word == "recv") {
    in.code = word == "send" ? OpCode::kSend : OpCode::kRecv;
    HEDDLE_RETURN_IF_ERROR(Operand(in.operand_count, device, w));
    HEDDLE_RETURN_IF_ERROR(w.Expect(word == "send" ? "to" : "from"));
    HEDDLE_ASSIGN(in.target, DeviceNumber(w));
    if (in.target == device_) return w.Bad("a device cannot exchange messages with itself");
    if (w.Accept("tag")) {
      HEDDLE_ASSIGN(const int64_t tag, w.Integer("a tag", 0, INT32_MAX));
      in.tag = static_cast<int32_t>(tag);
    }
    return Ok();
  }
  if (word == "wait" || word == "free") {
    in.code = word == "wait" ? OpCode::kWait : OpCode::kFree;
    while (!w.done()) HEDDLE_RETURN_IF_ERROR(Operand(in.operand_count, device, w));
    if (in.operand_count == 0) return w.Bad(fmt::format("{} names no buffer", word));
    return Ok();
  }
  if (word == "alias") {
    in.code = OpCode::kAlias;
    HEDDLE_RETURN_IF_ERROR(Operand(in.operand_count, device, w));
    HEDDLE_RETURN_IF_ERROR(w.Expect("="));
    HEDDLE_RETURN_IF_ERROR(Operand(in.operand_count, device, w));
    const ProgramTensor& made = p_.tensor(device.operands.end()[-2].tensor);
    const ProgramTensor& old = p_.tensor(device.operands.end()[-1].tensor);
    if (made.dtype == old.dtype && made.shape == old.shape) return Ok();
    return w.Bad(fmt::format("{} and {} differ in type or shape", made.name, old.name));
  }
  if (const auto kind = ParseChoice<CollectiveKind>(word)) {
    in.code = OpCode::kCollective;
    in.kind = *kind;
    return Collective(in, device, w);
  }
  return w.Bad(fmt::format("unknown instruction \"{}\"", word),
               "compute, send, recv, wait, free, alias, or a collective such as all-reduce");
}

Status ProgramParser::Operand(int32_t& count, DeviceProgram& device, LineWords& w) {
  HEDDLE_ASSIGN(const std::string_view word, w.Word("a buffer"));
  HEDDLE_ASSIGN(const BufferRef ref, Buffer(word, w));
  device.operands.push_back(ref);
  ++count;
  return Ok();
}

Status ProgramParser::Compute(Instruction& in, LineWords& w) {
  HEDDLE_ASSIGN(const std::string_view name, w.Word("a segment's name"));
  const auto segment = segments_.Find(name);
  if (!segment) {
    return w.Bad(fmt::format("unknown segment \"{}\"", name), segments_.Suggest(name));
  }
  in.code = OpCode::kCompute;
  in.target = *segment;
  std::string marks;
  while (!w.done() && !w.NextIs("acc")) {
    const std::string_view word = w.Take();
    if (word.find_first_of("#^@") != 0) {
      return w.Bad(fmt::format("unexpected \"{}\"", word), "e.g. compute F0 #3 ^1 @2 acc");
    }
    marks += word;
  }
  std::string_view rest = marks;
  HEDDLE_RETURN_IF_ERROR(TakeMarks(rest, in.microbatch, in.replica, in.version, w));
  in.accumulate = w.Accept("acc");
  return Ok();
}

Status ProgramParser::Collective(Instruction& in, DeviceProgram& device, LineWords& w) {
  while (!w.done() && !w.NextIs("->") && !w.NextIs("over")) {
    HEDDLE_RETURN_IF_ERROR(Operand(in.operand_count, device, w));
  }
  if (w.Accept("->")) {
    while (!w.done() && !w.NextIs("over")) {
      HEDDLE_RETURN_IF_ERROR(Operand(in.output_count, device, w));
    }
  }
  if (in.operand_count == 0) return w.Bad("a collective without buffers");
  HEDDLE_RETURN_IF_ERROR(w.Expect("over"));
  HEDDLE_ASSIGN(const std::string_view name, w.Word("a group"));
  const auto group = groups_.Find(name);
  if (!group) return w.Bad(fmt::format("unknown group \"{}\"", name), groups_.Suggest(name));
  in.target = *group;
  const auto members = static_cast<int64_t>(p_.group(*group).devices.size());
  if (in.kind == CollectiveKind::kBroadcast) {
    HEDDLE_RETURN_IF_ERROR(w.Expect("root"));
    HEDDLE_ASSIGN(const int64_t root, w.Integer("the root's rank", 0, members - 1));
    in.tag = static_cast<int32_t>(root);
  }
  if (w.NextIs("dim") || w.NextIs("sizes")) {
    CollectiveShape shape;
    HEDDLE_RETURN_IF_ERROR(ParseDivision(shape.from, members, w));
    if (w.Accept("to")) HEDDLE_RETURN_IF_ERROR(ParseDivision(shape.to, members, w));
    const auto [found, added] = shapes_.emplace(shape, static_cast<int32_t>(p_.shapes.size()));
    if (added) p_.shapes.push_back(std::move(shape));
    in.shape = found->second;
  }
  HEDDLE_ASSIGN(const std::string_view algorithm_name, w.Word("an algorithm"));
  const auto algorithm = ParseChoice<CollectiveAlgorithm>(algorithm_name);
  if (!algorithm) {
    return w.Bad(fmt::format("unknown algorithm \"{}\"", algorithm_name),
                 "ring, tree, hierarchical or grouped");
  }
  in.algorithm = *algorithm;
  if (w.Accept("as")) {
    HEDDLE_RETURN_IF_ERROR(w.Expect("f16"));
    if (in.kind != CollectiveKind::kAllReduce) {
      return w.Bad("only an all-reduce travels in another type", "leave out \"as f16\"");
    }
    in.half = true;
  }
  return CheckForm(in, w);
}

Status ProgramParser::CheckForm(const Instruction& in, LineWords& w) {
  const bool divides = in.kind == CollectiveKind::kAllGather ||
                       in.kind == CollectiveKind::kReduceScatter ||
                       in.kind == CollectiveKind::kAllToAll;
  if (divides != (in.shape >= 0) || divides != (in.output_count > 0)) {
    return w.Bad(divides ? "needs outputs after \"->\" and sizes" : "takes no outputs or sizes",
                 "e.g. all-gather y~s -> y over all dim 1 sizes 5,3 ring");
  }
  const bool has_target =
      in.shape >= 0 && !p_.shapes[static_cast<size_t>(in.shape)].to.sizes.empty();
  if (has_target != (in.kind == CollectiveKind::kAllToAll)) {
    return w.Bad("only all-to-all has a second division, after \"to\", and needs it");
  }
  return Ok();
}

Status ProgramParser::ParseDivision(Division& division, int64_t members, LineWords& w) {
  if (w.Accept("dim")) {
    HEDDLE_ASSIGN(const int64_t dim, w.Integer("an axis", 0, 64));
    division.dim = static_cast<int32_t>(dim);
  }
  HEDDLE_RETURN_IF_ERROR(w.Expect("sizes"));
  HEDDLE_ASSIGN(const std::string_view list, w.Word("sizes, e.g. 5,3,0"));
  int64_t total = 0;
  for (const std::string_view part : SplitAt(list, ',')) {
    const auto size = ParseInteger(part);
    if (!size || *size < 0 || *size > kMostElements - total) return w.Bad("bad list of sizes");
    total += *size;
    division.sizes.push_back(*size);
  }
  if (static_cast<int64_t>(division.sizes.size()) == members) return Ok();
  return w.Bad(fmt::format("{} sizes for a group of {}", division.sizes.size(), members));
}

}  // namespace heddle
