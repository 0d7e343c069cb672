#include "program/proof/op_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace heddle {

bool IsStatistic(const Tensor& tensor) {
  const bool flows = tensor.role == Role::kActivation || tensor.role == Role::kGradient;
  return flows && !tensor.per_sample;
}

std::string PrintBox(const Slice& slice) {
  std::string text;
  for (const Range& range : slice) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", range.begin, range.end);
  }
  return "[" + text + "]";
}

struct OpTransfer::Work {
  int32_t index;
  const Op& op;
  const std::vector<Range>& ranges;
  Range group;
  const std::vector<const ValueParts*>& inputs;
  std::vector<size_t> sums = {};  // operands that are not plainly whole
};

BoxId OpTransfer::BoxOf(const Op& op, const Operand& operand, const std::vector<Range>& ranges,
                        Range group) {
  Slice slice;
  if (IsStatistic(g_.tensor(operand.tensor))) slice.push_back(group);
  for (const char letter : operand.letters) slice.push_back(ranges[op.IndexOf(letter)]);
  return boxes_.Of(slice);
}

bool OpTransfer::IsPlain(const ValueParts& parts) const {
  return parts.size() == 1 && parts[0].terms.size() == 1 &&
         parts[0].terms[0] == SumTerm{TermTable::kWholePath, 1, {}};
}

std::string OpTransfer::CheckOperands(Work& work) {
  const Op& op = work.op;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const BoxId box = BoxOf(op, op.inputs[k], work.ranges, work.group);
    if (ElementsOf(boxes_[box]) == 0) continue;
    const ValueParts& parts = *work.inputs[k];
    if (!Fill(boxes_, box, parts)) {
      return fmt::format("{} takes {} of {}, of which {} is there", op.name, PrintBox(boxes_[box]),
                         g_.tensor(op.inputs[k].tensor).name,
                         parts.empty() ? "nothing" : PrintBox(boxes_[HullOf(boxes_, parts)]));
    }
    if (!IsPlain(parts)) work.sums.push_back(k);
  }
  const OpKindInfo& info = InfoOf(op.kind);
  for (const size_t k : work.sums) {
    const bool carries =
        info.linearity == Linearity::kAdditive ||
        (info.linearity == Linearity::kMultilinear && (info.linear_in >> k & 1U) != 0);
    if (carries) continue;
    return fmt::format("{} reads {}, which is not whole there: it has {}", op.name,
                       g_.tensor(op.inputs[k].tensor).name,
                       terms_.Describe((*work.inputs[k])[0].terms));
  }
  return "";
}

// What of the contracted letters is computed. False: nothing at all. `blocked`: a letter is cut
// that the op mixes, so that only this operand is.
bool OpTransfer::CutsOf(const Work& work, size_t o, const std::vector<Range>& ranges, bool& blocked,
                        std::vector<LetterCut>& cuts) const {
  const Op& op = work.op;
  const Operand& output = op.outputs[o];
  const bool gradient = g_.tensor(output.tensor).role == Role::kWeightGradient;
  for (size_t k = 0; k < op.letters.size(); ++k) {
    const char letter = op.letters[k];
    const bool mixed = std::isupper(static_cast<unsigned char>(letter)) != 0;
    if (!mixed && output.letters.find(letter) != std::string::npos) continue;
    if (ranges[k].size() <= 0) return false;
    if (letter == 'b' && gradient) continue;  // its samples say so
    const Range whole = letter == 'b' ? work.group : Range{0, op.extents[k]};
    if (ranges[k] == whole) continue;
    blocked = blocked || mixed;
    cuts.push_back({letter, ranges[k], whole});
  }
  return true;
}

Range OpTransfer::SamplesOf(const Work& work, const std::vector<Range>& ranges) const {
  const size_t at = work.op.IndexOf('b');
  return at == std::string::npos ? work.group : ranges[at];
}

void OpTransfer::MakeWhole(const Work& work, size_t o, ValueParts& made) {
  const BoxId box = BoxOf(work.op, work.op.outputs[o], work.ranges, work.group);
  if (ElementsOf(boxes_[box]) == 0) return;
  std::vector<LetterCut> cuts;
  bool blocked = false;
  ValuePart part{box, {}};
  const bool gradient = g_.tensor(work.op.outputs[o].tensor).role == Role::kWeightGradient;
  if (CutsOf(work, o, work.ranges, blocked, cuts)) {
    const bool whole = cuts.empty() && !gradient;
    const PathId path = whole ? TermTable::kWholePath : terms_.PathOf({work.index, {}, cuts});
    part.terms = {{path, 1, gradient ? SamplesOf(work, work.ranges) : Range{}}};
  }
  made.push_back(std::move(part));
}

// Of each combination of the operands' parts.
void OpTransfer::Carry(const Work& work, const std::vector<size_t>& operands, size_t o,
                       ValueParts& made) {
  std::vector<std::vector<const ValuePart*>> combinations = {{}};
  for (const size_t k : operands) {
    std::vector<std::vector<const ValuePart*>> longer;
    for (const auto& one : combinations) {
      for (const ValuePart& part : *work.inputs[k]) {
        longer.push_back(one);
        longer.back().push_back(&part);
      }
    }
    combinations = std::move(longer);
  }
  for (const auto& parts : combinations) CarryParts(work, operands, parts, o, made);
}

void OpTransfer::CarryParts(const Work& work, const std::vector<size_t>& operands,
                            const std::vector<const ValuePart*>& parts, size_t o,
                            ValueParts& made) {
  const Op& op = work.op;
  const bool gradient = g_.tensor(op.outputs[o].tensor).role == Role::kWeightGradient;
  const bool adds = InfoOf(op.kind).linearity == Linearity::kAdditive;
  std::vector<Range> ranges = work.ranges;
  for (size_t n = 0; n < operands.size(); ++n) {
    const Operand& operand = op.inputs[operands[n]];
    const size_t first = IsStatistic(g_.tensor(operand.tensor)) ? 1 : 0;
    for (size_t axis = 0; axis < operand.letters.size(); ++axis) {
      Range& range = ranges[op.IndexOf(operand.letters[axis])];
      const Range here = boxes_[parts[n]->box][first + axis];
      range = {std::max(range.begin, here.begin), std::min(range.end, here.end)};
      if (range.size() <= 0) return;  // parts that never meet
    }
  }
  std::vector<LetterCut> cuts;
  bool blocked = false;
  if (!CutsOf(work, o, ranges, blocked, cuts)) return;
  // A letter that is mixed is whole in what comes out.
  std::vector<Range> out = ranges;
  for (size_t k = 0; k < out.size(); ++k) {
    if (std::isupper(static_cast<unsigned char>(op.letters[k])) != 0) out[k] = work.ranges[k];
  }
  const BoxId box = BoxOf(op, op.outputs[o], out, work.group);
  if (ElementsOf(boxes_[box]) == 0) return;
  const Range tag = gradient ? SamplesOf(work, ranges) : Range{};
  ValuePart carried{box, {}};
  const auto add = [&](double factor, std::vector<OperandTerm> terms) {
    std::erase_if(terms, [&](const OperandTerm& term) {
      return term.path == TermTable::kWholePath && !adds && !blocked;
    });
    const bool whole = terms.empty() && cuts.empty() && !gradient;
    const PathId path =
        whole ? TermTable::kWholePath : terms_.PathOf({work.index, std::move(terms), cuts});
    carried.terms.push_back({path, factor, tag});
  };
  for (const SumTerm& one : parts[0]->terms) {
    const OperandTerm first{static_cast<int32_t>(operands[0]), one.path};
    if (parts.size() == 1) {
      add(one.factor, {first});
      continue;
    }
    for (const SumTerm& other : parts[1]->terms) {
      add(one.factor * other.factor, {first, {static_cast<int32_t>(operands[1]), other.path}});
    }
  }
  made.push_back(std::move(carried));
}

std::string OpTransfer::Run(int32_t index, const std::vector<Range>& ranges, Range group,
                            const std::vector<const ValueParts*>& inputs,
                            std::vector<ValueParts>& outputs) {
  Work work{index, g_.ops()[static_cast<size_t>(index)], ranges, group, inputs};
  outputs.assign(work.op.outputs.size(), {});
  std::string wrong = CheckOperands(work);
  if (!wrong.empty()) return wrong;
  const bool adds = InfoOf(work.op.kind).linearity == Linearity::kAdditive;
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (work.sums.empty()) {
      MakeWhole(work, o, outputs[o]);
      continue;
    }
    ValueParts made;
    for (size_t k = 0; k < work.inputs.size() && adds; ++k) Carry(work, {k}, o, made);
    if (!adds) Carry(work, work.sums, o, made);
    outputs[o] = Overlay(boxes_, BoxOf(work.op, work.op.outputs[o], ranges, group), made);
    const bool gradient = g_.tensor(work.op.outputs[o].tensor).role == Role::kWeightGradient;
    if (gradient) continue;
    for (ValuePart& part : outputs[o]) terms_.Complete(part.terms);
    JoinEqual(boxes_, outputs[o]);
  }
  return "";
}

}  // namespace heddle
