// What computes do to buffers; the rest of ProofWalk is in proof_walk.cc.
#include <fmt/format.h>

#include <algorithm>

#include "program/proof/proof_walk.h"

namespace heddle {
namespace {

constexpr size_t kNoBuffer = BufferNames::kFreed;

bool Reads(PortUse use) { return use == PortUse::kRead || use == PortUse::kConsume; }

bool IsWeight(Role role) { return role == Role::kParameter || role == Role::kState; }

}  // namespace

// Where its ports' buffers are, once nothing writes them any more.
bool ProofWalk::FindBuffers(Device& device, const Instruction& in, int64_t i) {
  const std::vector<Port>& ports = p_.segment(in.target).ports;
  at_.assign(ports.size(), kNoBuffer);
  names_.assign(ports.size(), kNoBuffer);
  for (size_t k = 0; k < ports.size(); ++k) {
    if (!Tracked(ports[k].tensor)) continue;
    names_[k] = device.names.NumberOf(KeyOf(BufferOf(ports[k], in), i));
    const size_t buffer = device.names.At(names_[k]);
    if (buffer == kNoBuffer) continue;
    if (IsPending(device, buffer)) return false;
    at_[k] = buffer;
  }
  return true;
}

// Without ops, and of no phase: it moves what it reads of a tensor to where it writes the same one.
// Of a Program of unknown inside it may be anything that makes activations, or the first weights.
bool ProofWalk::IsMove(const Segment& segment) const {
  if (segment.phase != SegmentPhase::kOther || !segment.ops.empty()) return false;
  return std::all_of(segment.ports.begin(), segment.ports.end(), [&](const Port& port) {
    if (Reads(port.use)) return true;
    const Role role = p_.tensor(port.tensor).role;
    const bool sum = role == Role::kWeightGradient;
    const bool taken = std::any_of(
        segment.ports.begin(), segment.ports.end(),
        [&](const Port& from) { return Reads(from.use) && from.tensor == port.tensor; });
    return taken || sum || !opaque_;
  });
}

bool ProofWalk::TryCompute(int32_t device, const Instruction& in, int64_t i) {
  Device& state = devices_[static_cast<size_t>(device)];
  if (!FindBuffers(state, in, i)) return false;
  const Segment& segment = p_.segment(in.target);
  if (IsMove(segment)) {
    Move(device, in, i);
  } else if (segments_.Updates(in.target)) {
    Update(device, in, i);
  } else {
    Work(device, in, i);
  }
  for (size_t k = 0; k < segment.ports.size(); ++k) {
    const bool ends = segment.ports[k].use == PortUse::kConsume && at_[k] != kNoBuffer;
    if (ends) Release(state, state.names.At(names_[k]));
  }
  return true;
}

// --- Forward and backward ----------------------------------------------------------------------

int32_t ProofWalk::KeyFor(BoxId box, const HeldParts& parts) {
  if (parts.size() == 1 && parts[0].box == box && parts[0].state >= 0) return parts[0].state;
  ValueParts values;
  for (const HeldPart& part : parts) {
    values.push_back({part.box, part.state < 0 ? part.sum : terms_.terms(part.state)});
  }
  return segments_.Mixture(values);
}

bool ProofWalk::CheckSamples(int32_t device, const Segment& segment, int32_t tensor,
                             const HeldPart& part, int64_t first) {
  if (part.base == first || part.base == HeldPart::kAnyBase) return true;
  const auto samples = [&](int64_t base) {
    return fmt::format("{}..{}", base + segment.rows.begin,
                       base + std::max(segment.rows.begin, segment.rows.end - 1));
  };
  Found(ProofFault::kNotWhole, device,
        fmt::format("{} on device {} is of samples {} when {} reads it for samples {}",
                    p_.tensor(tensor).name, device, samples(part.base), segment.name,
                    samples(first)));
  return false;
}

bool ProofWalk::CheckVersion(int32_t device, const Instruction& in, int32_t tensor, int64_t step,
                             int64_t version) {
  const Segment& segment = p_.segment(in.target);
  const std::string expected = rules_.CheckRead(device, segment, step, in.replica, version);
  if (expected.empty()) return true;
  const Range samples = rules_.SamplesOf(step);
  Found(ProofFault::kWrongVersion, device,
        fmt::format("{} on device {} is {} when {} reads it for the step of samples {}..{}, and "
                    "should be {}",
                    p_.tensor(tensor).name, device, rules_.Print(version), segment.name,
                    samples.begin, samples.end - 1, expected));
  return false;
}

int32_t ProofWalk::StateOfWeight(int32_t device, const Instruction& in, size_t k,
                                 const HeldParts& parts, int64_t step) {
  const int32_t tensor = p_.segment(in.target).ports[k].tensor;
  const BoxId box = segments_.BoxOf(in.target, k);
  ValueParts values;
  for (const HeldPart& part : parts) {
    SumTerms terms = terms_.terms(part.state);
    for (SumTerm& term : terms) {
      if (!CheckVersion(device, in, tensor, step, term.tag.begin)) return TermTable::kWhole;
      term.tag = {};
    }
    values.push_back({part.box, std::move(terms)});
  }
  const bool one = values.size() == 1 && values[0].box == box;
  return one ? terms_.StateOf(std::move(values[0].terms)) : segments_.Mixture(values);
}

int32_t ProofWalk::StateOf(int32_t device, const Instruction& in, size_t k, int64_t first,
                           int64_t step) {
  const Segment& segment = p_.segment(in.target);
  const Port& port = segment.ports[k];
  const bool reads = Reads(port.use) || port.use == PortUse::kChange;
  const Role role = p_.tensor(port.tensor).role;
  if (!reads || role == Role::kLoss || role == Role::kWeightGradient) {
    return SegmentTransfer::kNoInput;
  }
  if (role == Role::kInput || segment.phase == SegmentPhase::kOther) return TermTable::kWhole;
  if (at_[k] == kNoBuffer) return TermTable::kWhole;  // nothing of it: an empty part
  const HeldParts& held = devices_[static_cast<size_t>(device)].buffers[at_[k]].parts;
  const BoxId box = segments_.BoxOf(in.target, k);
  const bool plain = held.size() == 1 && held[0].box == box;
  HeldParts cut;
  if (!plain) cut = exchange_.Restricted(port.tensor, box, held);
  const HeldParts& parts = plain ? held : cut;
  if (parts.empty() && ElementsOf(boxes_[box]) == 0) return TermTable::kWhole;
  if (!IsWeight(role)) {
    for (const HeldPart& part : parts) {
      if (!CheckSamples(device, segment, port.tensor, part, first)) return TermTable::kWhole;
    }
    return KeyFor(box, parts);
  }
  if (plain) {
    const SumTerms& terms = terms_.terms(parts[0].state);
    const bool whole =
        terms.size() == 1 && terms[0].path == TermTable::kWholePath && terms[0].factor == 1;
    if (whole) {
      CheckVersion(device, in, port.tensor, step, terms[0].tag.begin);
      return TermTable::kWhole;
    }
  }
  return StateOfWeight(device, in, k, parts, step);
}

void ProofWalk::Work(int32_t device, const Instruction& in, int64_t i) {
  Device& state = devices_[static_cast<size_t>(device)];
  const Segment& segment = p_.segment(in.target);
  const bool numbered = in.microbatch.present() && !p_.microbatch_rows.empty();
  const int64_t m = numbered ? std::max<int64_t>(0, in.microbatch.value(i)) : 0;
  const int64_t first = numbered ? rules_.FirstSampleOf(m) : 0;
  const int64_t step = numbered ? rules_.StepOf(m) : 0;
  key_.clear();
  for (size_t k = 0; k < segment.ports.size(); ++k) {
    key_.push_back(StateOf(device, in, k, first, step));
  }
  if (done()) return;
  const SegmentTransfer::Made& made = segments_.Of(in.target, key_);
  if (!made.wrong.text.empty()) {
    return Found(
        made.wrong.fault, device,
        fmt::format("{} on device {}, samples {}..{}: {}", segment.name, device,
                    first + segment.rows.begin,
                    first + std::max(segment.rows.begin, segment.rows.end - 1), made.wrong.text));
  }
  for (size_t k = 0; k < segment.ports.size(); ++k) {
    const Port& port = segment.ports[k];
    if (Reads(port.use) || !Tracked(port.tensor)) continue;
    const bool weight = IsWeight(p_.tensor(port.tensor).role);
    if (weight && port.use != PortUse::kWrite) continue;  // only updates change them
    if (at_[k] == kNoBuffer) at_[k] = MakeNamed(state, state.names.At(names_[k]));
    HeldParts& parts = state.buffers[at_[k]].parts;
    if (p_.tensor(port.tensor).role == Role::kWeightGradient) {
      const bool adds = port.use == PortUse::kAccumulate || port.use == PortUse::kChange ||
                        (port.use == PortUse::kAdd && in.accumulate);
      if (!adds) parts.clear();
      AddTo(port.tensor, parts, made.ports[k], first);
      continue;
    }
    parts = made.held[k];
    for (HeldPart& part : parts) {
      if (part.state != TermTable::kZero && !weight) part.base = first;
    }
  }
}

// To a gradient: its samples are counted from the first of all.
void ProofWalk::AddTo(int32_t tensor, HeldParts& parts, const ValueParts& made, int64_t first) {
  const auto shifted = [&](SumTerm term) {
    term.tag = {term.tag.begin + first, term.tag.end + first};
    return term;
  };
  const bool alike =
      made.size() == 1 && (parts.empty() || (parts.size() == 1 && parts[0].box == made[0].box));
  if (alike) {
    if (parts.empty()) parts.push_back({made[0].box, HeldPart::kSum});
    for (const SumTerm& term : made[0].terms) TermTable::Add(parts[0].sum, shifted(term));
    return;
  }
  ValueParts both;
  int64_t base = HeldPart::kAnyBase;
  exchange_.ToValues(tensor, parts, both, base);
  for (ValuePart part : made) {
    for (SumTerm& term : part.terms) term = shifted(term);
    both.push_back(std::move(part));
  }
  if (both.empty()) return;
  parts = exchange_.ToHeld(tensor, Overlay(boxes_, HullOf(boxes_, both), both), base);
}

// --- Moves and updates -------------------------------------------------------------------------

void ProofWalk::Move(int32_t device, const Instruction& in, int64_t i) {
  Device& state = devices_[static_cast<size_t>(device)];
  const Segment& segment = p_.segment(in.target);
  for (size_t to = 0; to < segment.ports.size(); ++to) {
    const Port& target = segment.ports[to];
    if (Reads(target.use) || !Tracked(target.tensor)) continue;
    ValueParts values;
    int64_t base = HeldPart::kAnyBase;
    bool alike = true;
    std::optional<Range> rows;  // of a statistic: those that what is read is of
    const auto take = [&](size_t buffer, BoxId box, double scale) {
      if (buffer == kNoBuffer) return;
      const HeldParts& held = state.buffers[buffer].parts;
      const bool statistic = segments_.IsStatistic(target.tensor);
      if (statistic && !held.empty()) rows = boxes_[held[0].box][0];
      ValueParts taken;
      alike = exchange_.ToValues(target.tensor,
                                 statistic ? held : exchange_.Restricted(target.tensor, box, held),
                                 taken, base) &&
              alike;
      for (ValuePart& part : taken) {
        for (SumTerm& term : part.terms) term.factor *= scale;
        values.push_back(std::move(part));
      }
    };
    const bool adds =
        target.use == PortUse::kAccumulate || (target.use == PortUse::kAdd && in.accumulate);
    if (adds) take(at_[to], segments_.BoxOf(in.target, to), 1);
    for (size_t from = 0; from < segment.ports.size(); ++from) {
      const Port& source = segment.ports[from];
      if (!Reads(source.use) || source.tensor != target.tensor) continue;
      take(at_[from], segments_.BoxOf(in.target, from), segment.scale);
    }
    if (!alike) {
      return Found(ProofFault::kNotWhole, device,
                   fmt::format("{} on device {} adds {} of different microbatches", segment.name,
                               device, p_.tensor(target.tensor).name));
    }
    if (!rows && in.microbatch.present() && !p_.microbatch_rows.empty()) {  // zeros
      const auto m = static_cast<size_t>(std::max<int64_t>(0, in.microbatch.value(i)));
      rows = Range{0, p_.microbatch_rows[m % p_.microbatch_rows.size()]};
    }
    const BoxId box = segments_.BoxOf(target.tensor, target.slice, rows.value_or(Range{}));
    if (segments_.IsStatistic(target.tensor) && !rows) {
      return Unknown(
          fmt::format("zeros are made of the statistic {}", p_.tensor(target.tensor).name));
    }
    ValueParts made;
    for (const ValuePart& part : Overlay(boxes_, box, values)) made.push_back(part);
    exchange_.Complete(target.tensor, made);
    if (at_[to] == kNoBuffer) at_[to] = MakeNamed(state, state.names.At(names_[to]));
    Replace(target.tensor, box, exchange_.ToHeld(target.tensor, std::move(made), base),
            state.buffers[at_[to]].parts);
  }
}

void ProofWalk::Update(int32_t device, const Instruction& in, int64_t i) {
  Device& state = devices_[static_cast<size_t>(device)];
  const Segment& segment = p_.segment(in.target);
  std::vector<ValueParts> ports(segment.ports.size());
  for (size_t k = 0; k < ports.size(); ++k) {
    if (at_[k] == kNoBuffer) continue;
    int64_t base = HeldPart::kAnyBase;
    const HeldParts cut = exchange_.Restricted(
        segment.ports[k].tensor, segments_.BoxOf(in.target, k), state.buffers[at_[k]].parts);
    exchange_.ToValues(segment.ports[k].tensor, cut, ports[k], base);
  }
  const int64_t number = in.version.present() ? in.version.value(i) : StepOf(p_, in, i);
  const ProofWrong wrong =
      segments_.Update(in.target, {device, in.replica, number}, ports, in.accumulate);
  if (!wrong.text.empty()) return Found(wrong.fault, device, wrong.text);
  for (size_t k = 0; k < ports.size(); ++k) {
    const Port& port = segment.ports[k];
    if (Reads(port.use) || !Tracked(port.tensor)) continue;
    if (at_[k] == kNoBuffer) at_[k] = MakeNamed(state, state.names.At(names_[k]));
    const bool weight = p_.tensor(port.tensor).role == Role::kParameter;
    if (weight && !ports[k].empty() && !ports[k][0].terms.empty()) {
      state.newest[port.tensor] = ports[k][0].terms[0].tag.begin;
    }
    Replace(port.tensor, segments_.BoxOf(in.target, k),
            exchange_.ToHeld(port.tensor, ports[k], HeldPart::kAnyBase),
            state.buffers[at_[k]].parts);
  }
}

}  // namespace heddle
