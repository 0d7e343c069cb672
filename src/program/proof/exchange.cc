#include "program/proof/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "program/proof/op_transfer.h"

namespace heddle {
namespace {

// A member's share of a division that begins at `begin`.
Range ShareOf(const Division& division, size_t rank, int64_t begin) {
  const auto sizes = division.sizes.begin();
  begin += std::accumulate(sizes, sizes + static_cast<std::ptrdiff_t>(rank), int64_t{0});
  return {begin, begin + division.sizes[rank]};
}

}  // namespace

bool ExchangeTransfer::ToValues(int32_t tensor, const HeldParts& parts, ValueParts& values,
                                int64_t& base) const {
  for (const HeldPart& part : parts) {
    const bool sum = part.state == HeldPart::kSum;
    values.push_back({part.box, sum ? part.sum : terms_.terms(part.state)});
    if (IsGradient(tensor) || IsWeight(tensor) || values.back().terms.empty()) continue;
    if (base == HeldPart::kAnyBase) base = part.base;
    if (part.base != base && part.base != HeldPart::kAnyBase) return false;
  }
  return true;
}

HeldParts ExchangeTransfer::ToHeld(int32_t tensor, ValueParts values, int64_t base) {
  HeldParts parts;
  for (ValuePart& value : values) {
    HeldPart& part = parts.emplace_back();
    part.box = value.box;
    if (IsGradient(tensor)) {
      part.state = HeldPart::kSum;
      part.sum = std::move(value.terms);
      continue;
    }
    part.base = value.terms.empty() || IsWeight(tensor) ? HeldPart::kAnyBase : base;
    part.state = terms_.StateOf(std::move(value.terms));
  }
  return parts;
}

void ExchangeTransfer::Complete(int32_t tensor, ValueParts& values) {
  for (ValuePart& part : values) {
    if (IsGradient(tensor)) {
      sums_.Complete(tensor, part.terms);
      continue;
    }
    terms_.Complete(part.terms);
    if (!IsWeight(tensor) || !rules_.local()) continue;
    std::vector<std::pair<int64_t, double>> shares;
    for (const SumTerm& term : part.terms) {
      if (term.path == TermTable::kWholePath) shares.emplace_back(term.tag.begin, term.factor);
    }
    const int64_t next = rules_.VersionAfter(1);
    if (shares.size() == part.terms.size() && rules_.IsAverage(shares)) {
      part.terms = {{TermTable::kWholePath, 1, {next, next}}};
    }
  }
  JoinEqual(boxes_, values);
}

HeldParts ExchangeTransfer::Restricted(int32_t tensor, BoxId box, const HeldParts& parts) {
  HeldParts inside;
  for (const HeldPart& part : parts) {
    const BoxId common = boxes_.Intersection(part.box, box);
    if (common == BoxTable::kNothing) continue;
    inside.push_back(part);
    inside.back().box = common;
  }
  if (inside.size() < 2) return inside;
  ValueParts values;
  int64_t base = HeldPart::kAnyBase;
  if (!ToValues(tensor, inside, values, base)) return inside;
  JoinEqual(boxes_, values);
  return ToHeld(tensor, std::move(values), base);
}

std::string ExchangeTransfer::Join(int32_t tensor, const std::vector<ExchangeSide>& sides,
                                   ValueParts& values, int64_t& base) {
  for (const ExchangeSide& side : sides) {
    if (ToValues(tensor, side.before, values, base)) continue;
    return fmt::format("members bring {} of different microbatches", p_.tensor(tensor).name);
  }
  return "";
}

std::string ExchangeTransfer::Run(const Instruction& in, int32_t tensor, size_t lead,
                                  std::vector<ExchangeSide>& sides) {
  for (ExchangeSide& side : sides) {
    if (side.from != BoxTable::kNothing) {
      side.before = Restricted(tensor, side.from, side.before);
    }
  }
  if (in.kind == CollectiveKind::kBroadcast) {
    const HeldParts root = sides[static_cast<size_t>(in.tag)].before;
    for (ExchangeSide& side : sides) side.after = root;
    return "";
  }
  if (in.kind == CollectiveKind::kAllReduce) return Sum(tensor, sides, false, nullptr, 0);
  const CollectiveShape& shape = p_.shapes[static_cast<size_t>(in.shape)];
  const size_t axis = lead + static_cast<size_t>(shape.from.dim);
  if (in.kind == CollectiveKind::kReduceScatter) return Sum(tensor, sides, true, &shape.from, axis);
  if (in.kind == CollectiveKind::kAllGather) return Gather(tensor, sides, shape.from, axis);
  return AllToAll(tensor, sides, shape, lead);
}

std::string ExchangeTransfer::Sum(int32_t tensor, std::vector<ExchangeSide>& sides, bool scatters,
                                  const Division* division, size_t axis) {
  ValueParts values;
  int64_t base = HeldPart::kAnyBase;
  std::string wrong = Join(tensor, sides, values, base);
  if (!wrong.empty() || values.empty()) return wrong;
  const BoxId hull = HullOf(boxes_, values);
  for (const ExchangeSide& side : sides) {
    ValueParts own;
    ToValues(tensor, side.before, own, base);
    if (Fill(boxes_, hull, own)) continue;
    return fmt::format("members add different parts of {}", p_.tensor(tensor).name);
  }
  values = Overlay(boxes_, hull, values);
  Complete(tensor, values);
  const HeldParts sum = ToHeld(tensor, std::move(values), base);
  for (size_t rank = 0; rank < sides.size(); ++rank) {
    ExchangeSide& side = sides[rank];
    if (!scatters) {
      side.after = sum;
      continue;
    }
    Slice mine = boxes_[hull];
    mine[axis] = ShareOf(*division, rank, mine[axis].begin);
    const BoxId share = boxes_.Of(mine);
    if (side.to != BoxTable::kNothing && side.to != share && mine[axis].size() > 0) {
      return fmt::format("member {} gets {} of {} and calls it {}", rank, PrintBox(mine),
                         p_.tensor(tensor).name, PrintBox(boxes_[side.to]));
    }
    side.after = Restricted(tensor, share, sum);
  }
  return "";
}

// Shares are put together in the order of ranks: each must be the one that belongs there.
std::string ExchangeTransfer::Gather(int32_t tensor, std::vector<ExchangeSide>& sides,
                                     const Division& division, size_t axis) {
  ValueParts values;
  int64_t base = HeldPart::kAnyBase;
  std::string wrong = Join(tensor, sides, values, base);
  if (!wrong.empty() || values.empty()) return wrong;
  const BoxId all = sides[0].to != BoxTable::kNothing ? sides[0].to : HullOf(boxes_, values);
  for (size_t rank = 0; rank < sides.size(); ++rank) {
    ValueParts own;
    ToValues(tensor, sides[rank].before, own, base);
    Slice share = boxes_[all];
    share[axis] = ShareOf(division, rank, share[axis].begin);
    const BoxId expected = boxes_.Of(share);
    if (share[axis].size() == 0 ? own.empty() : Fill(boxes_, expected, own)) continue;
    return fmt::format("member {} brings {} of {} where {} belongs", rank,
                       own.empty() ? "nothing" : PrintBox(boxes_[HullOf(boxes_, own)]),
                       p_.tensor(tensor).name, PrintBox(share));
  }
  JoinEqual(boxes_, values);
  const HeldParts gathered = ToHeld(tensor, std::move(values), base);
  for (ExchangeSide& side : sides) side.after = gathered;
  return "";
}

std::string ExchangeTransfer::AllToAll(int32_t tensor, std::vector<ExchangeSide>& sides,
                                       const CollectiveShape& shape, size_t lead) {
  ValueParts values;
  int64_t base = HeldPart::kAnyBase;
  std::string wrong = Join(tensor, sides, values, base);
  if (!wrong.empty() || values.empty()) return wrong;
  const size_t axis = lead + static_cast<size_t>(shape.from.dim);
  const size_t to_axis = lead + static_cast<size_t>(shape.to.dim);
  const Slice all = boxes_[HullOf(boxes_, values)];
  const HeldParts whole = ToHeld(tensor, values, base);
  for (size_t rank = 0; rank < sides.size(); ++rank) {
    Slice before = all, after = all;
    before[axis] = ShareOf(shape.from, rank, all[axis].begin);
    after[to_axis] = ShareOf(shape.to, rank, all[to_axis].begin);
    const BoxId from = boxes_.Of(before), to = boxes_.Of(after);
    ValueParts own;
    ToValues(tensor, sides[rank].before, own, base);
    const bool empty = before[axis].size() == 0;
    if (empty ? !own.empty() : !Fill(boxes_, from, own)) {
      return fmt::format("member {} brings another part of {} than {}", rank,
                         p_.tensor(tensor).name, PrintBox(before));
    }
    const BoxId asked = sides[rank].to;
    if (asked != BoxTable::kNothing && asked != to && after[to_axis].size() > 0) {
      return fmt::format("member {} gets {} of {} and calls it {}", rank, PrintBox(after),
                         p_.tensor(tensor).name, PrintBox(boxes_[asked]));
    }
    sides[rank].after = Restricted(tensor, to, whole);
  }
  return "";
}

}  // namespace heddle
