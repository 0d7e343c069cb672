#include "program/proof/segment_transfer.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {
namespace {

bool Reads(PortUse use) {
  return use == PortUse::kRead || use == PortUse::kConsume || use == PortUse::kChange;
}
bool Writes(PortUse use) { return use != PortUse::kRead && use != PortUse::kConsume; }

}  // namespace

SegmentTransfer::SegmentTransfer(const Program& program, const Graph* graph, BoxTable& boxes,
                                 TermTable& terms, const GradientTerms& sums, VersionRules& rules)
    : p_(program),
      g_(graph),
      boxes_(boxes),
      terms_(terms),
      sums_(sums),
      rules_(rules),
      ids_(program.tensors.size()),
      statistic_(program.tensors.size()) {
  if (graph != nullptr) {
    ops_.emplace(*graph, boxes, terms);
    tensors_.assign(graph->tensors().size(), -1);
    locals_.resize(graph->tensors().size());
    is_local_.resize(graph->tensors().size());
    seen_.assign(graph->tensors().size(), -1);
    for (size_t op = 0; op < graph->ops().size(); ++op) {
      terms_of_.push_back(terms.PathOf({static_cast<int32_t>(op), {}, {}}));
    }
    for (const std::string& name : program.op_names) {
      const auto id = graph->FindOp(name);
      op_ids_.push_back(id ? id->value : -1);
    }
    for (size_t t = 0; t < ids_.size(); ++t) {
      const auto id = graph->FindTensor(program.tensors[t].name);
      if (!id) continue;  // ProveProgram has looked
      ids_[t] = *id;
      tensors_[static_cast<size_t>(id->value)] = static_cast<int32_t>(t);
      statistic_[t] = heddle::IsStatistic(graph->tensor(*id));
    }
  }
  compiled_.resize(program.segments.size());
  for (size_t s = 0; s < compiled_.size(); ++s) Compile(program.segments[s], compiled_[s]);
}

BoxId SegmentTransfer::BoxOf(int32_t tensor, int32_t slice, Range rows) {
  Slice box = p_.SliceOf(tensor, slice);
  if (IsStatistic(tensor)) box.insert(box.begin(), rows);
  return boxes_.Of(box);
}

void SegmentTransfer::Compile(const Segment& segment, Compiled& compiled) {
  compiled.updates = segment.phase == SegmentPhase::kUpdate;
  for (const Port& port : segment.ports) {
    const bool data = p_.tensor(port.tensor).role == Role::kInput;
    if (data && !segment.joint && segment.rows.size() > 0) {
      Slice box = p_.SliceOf(port.tensor, port.slice);
      if (!box.empty()) box[0] = segment.rows;  // whatever else it says
      compiled.boxes.push_back(boxes_.Of(box));
    } else {
      compiled.boxes.push_back(BoxOf(port.tensor, port.slice, segment.rows));
    }
  }
  if (g_ == nullptr) return;
  for (const SegmentOp& part : segment.ops) {
    const int32_t id = op_ids_[static_cast<size_t>(part.op)];
    if (id < 0) continue;  // CheckSegments has looked
    const Op& op = g_->ops()[static_cast<size_t>(id)];
    CompiledOp made{id, {}};
    compiled.divided = compiled.divided || part.shards >= 0 || segment.joint;
    made.ranges.reserve(op.letters.size());
    for (size_t k = 0; k < op.letters.size(); ++k) {
      made.ranges.push_back(op.letters[k] == 'b' ? segment.rows : Range{0, op.extents[k]});
    }
    for (const auto& [letter, range] : p_.ShardsOf(part)) {
      const int64_t first = letter == 'b' ? segment.rows.begin : 0;
      made.ranges[op.IndexOf(letter)] = {first + range.begin, first + range.end};
    }
    compiled.updates = compiled.updates || op.phase == Phase::kUpdate;
    compiled.ops.push_back(std::move(made));
  }
}

int32_t SegmentTransfer::Mixture(const ValueParts& parts) {
  std::vector<std::pair<BoxId, StateId>> states;
  for (const ValuePart& part : parts) states.emplace_back(part.box, terms_.StateOf(part.terms));
  const auto next = static_cast<int32_t>(mixtures_.size());
  const auto [found, is_new] = mixture_ids_.try_emplace(std::move(states), -2 - next);
  if (is_new) mixtures_.push_back(parts);
  return found->second;
}

const SegmentTransfer::Made& SegmentTransfer::Of(int32_t segment, const Key& key) {
  auto& known = compiled_[static_cast<size_t>(segment)].made;
  for (const auto& [state, made] : known) {
    if (state == key) return made;
  }
  Made made = g_ == nullptr           ? EvaluateOpaque(segment, key)
              : IsPlain(segment, key) ? EvaluatePlain(segment)
                                      : Evaluate(segment, key);
  made.held.resize(made.ports.size());
  for (size_t k = 0; k < made.ports.size(); ++k) {
    if (p_.tensor(p_.segment(segment).ports[k].tensor).role == Role::kWeightGradient) continue;
    for (const ValuePart& part : made.ports[k]) {
      if (ElementsOf(boxes_[part.box]) == 0) continue;
      made.held[k].push_back({part.box, terms_.StateOf(part.terms)});
    }
  }
  known.emplace_back(key, std::move(made));
  return known.back().second;
}

// --- What is at hand inside a segment --------------------------------------------------------

void SegmentTransfer::Store(TensorId tensor, ValueParts parts) {
  const auto at = static_cast<size_t>(tensor.value);
  if (!is_local_[at]) touched_.push_back(tensor);
  is_local_[at] = true;
  locals_[at] = std::move(parts);
}

ValueParts* SegmentTransfer::Local(TensorId tensor) {
  const auto at = static_cast<size_t>(tensor.value);
  return is_local_[at] ? &locals_[at] : nullptr;
}

void SegmentTransfer::AddTo(TensorId tensor, const ValueParts& parts) {
  ValueParts* sum = Local(tensor);
  if (sum == nullptr) return Store(tensor, parts);
  const bool alike = sum->size() == 1 && parts.size() == 1 && (*sum)[0].box == parts[0].box;
  if (alike) {
    for (const SumTerm& term : parts[0].terms) TermTable::Add((*sum)[0].terms, term);
    return;
  }
  ValueParts both = *sum;
  both.insert(both.end(), parts.begin(), parts.end());
  if (both.empty()) return;
  *sum = Overlay(boxes_, HullOf(boxes_, both), both);
}

void SegmentTransfer::Forget() {
  for (const TensorId tensor : touched_) {
    is_local_[static_cast<size_t>(tensor.value)] = false;
    locals_[static_cast<size_t>(tensor.value)].clear();
  }
  touched_.clear();
}

// --- Forward and backward --------------------------------------------------------------------

SegmentTransfer::Made SegmentTransfer::Evaluate(int32_t id, const Key& key) {
  const Segment& segment = p_.segment(id);
  const Compiled& compiled = compiled_[static_cast<size_t>(id)];
  Made made;
  made.ports.resize(segment.ports.size());
  Forget();
  for (size_t k = 0; k < key.size(); ++k) {
    if (key[k] == kNoInput) continue;
    const TensorId tensor = ids_[static_cast<size_t>(segment.ports[k].tensor)];
    Store(tensor, key[k] >= 0 ? ValueParts{{compiled.boxes[k], terms_.terms(key[k])}}
                              : mixtures_[static_cast<size_t>(-2 - key[k])]);
  }
  for (const CompiledOp& op : compiled.ops) {
    made.wrong = RunOp(op, segment.rows);
    if (!made.wrong.text.empty()) return made;
  }
  for (size_t k = 0; k < segment.ports.size(); ++k) {
    const Port& port = segment.ports[k];
    if (!Writes(port.use) || p_.tensor(port.tensor).role == Role::kLoss) continue;
    const ValueParts* value = Local(ids_[static_cast<size_t>(port.tensor)]);
    const bool empty = ElementsOf(boxes_[compiled.boxes[k]]) == 0;
    if (!empty && (value == nullptr || !Fill(boxes_, compiled.boxes[k], *value))) {
      made.wrong = {ProofFault::kNotWhole,
                    fmt::format("{} of {} is written, of which its ops make {}",
                                PrintBox(boxes_[compiled.boxes[k]]), p_.tensor(port.tensor).name,
                                value == nullptr || value->empty()
                                    ? "nothing"
                                    : PrintBox(boxes_[HullOf(boxes_, *value)]))};
      return made;
    }
    if (value != nullptr) made.ports[k] = *value;
  }
  return made;
}

// Nothing divided: every port is whole, of the segment's rows, and every op computes all of them.
bool SegmentTransfer::IsPlain(int32_t id, const Key& key) const {
  const Segment& segment = p_.segment(id);
  const Compiled& compiled = compiled_[static_cast<size_t>(id)];
  if (compiled.divided) return false;
  for (size_t k = 0; k < key.size(); ++k) {
    if (key[k] != kNoInput && key[k] != TermTable::kWhole) return false;
    const Tensor& tensor = g_->tensor(ids_[static_cast<size_t>(segment.ports[k].tensor)]);
    if (tensor.role == Role::kLoss) continue;
    const Slice& box = boxes_[compiled.boxes[k]];
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      const Range whole =
          axis == 0 && tensor.per_sample ? segment.rows : Range{0, tensor.shape[axis]};
      if (box[axis + (box.size() - tensor.shape.size())] != whole) return false;
    }
  }
  return true;
}

// As Evaluate: then every op makes all of its outputs, and of a gradient one term.
SegmentTransfer::Made SegmentTransfer::EvaluatePlain(int32_t id) {
  const Segment& segment = p_.segment(id);
  const Compiled& compiled = compiled_[static_cast<size_t>(id)];
  Made made;
  made.ports.resize(segment.ports.size());
  std::map<TensorId, SumTerms> gradients;
  const int32_t mark = ++marks_;
  const auto is_there = [&](TensorId tensor) {
    return seen_[static_cast<size_t>(tensor.value)] == mark;
  };
  for (const Port& port : segment.ports) {
    const TensorId tensor = ids_[static_cast<size_t>(port.tensor)];
    if (Reads(port.use)) seen_[static_cast<size_t>(tensor.value)] = mark;
  }
  for (const CompiledOp& part : compiled.ops) {
    const Op& op = g_->ops()[static_cast<size_t>(part.op)];
    for (const Operand& input : op.inputs) {
      if (is_there(input.tensor)) continue;
      made.wrong.text = fmt::format("{} reads {}, which no port brings and no op before it makes",
                                    op.name, g_->tensor(input.tensor).name);
      return made;
    }
    for (const Operand& output : op.outputs) {
      if (g_->tensor(output.tensor).role == Role::kWeightGradient) {
        const PathId path = terms_of_[static_cast<size_t>(part.op)];
        TermTable::Add(gradients[output.tensor], {path, 1, segment.rows});
      } else {
        seen_[static_cast<size_t>(output.tensor.value)] = mark;
      }
    }
  }
  for (size_t k = 0; k < segment.ports.size(); ++k) {
    const Port& port = segment.ports[k];
    const TensorId tensor = ids_[static_cast<size_t>(port.tensor)];
    const Role role = g_->tensor(tensor).role;
    if (!Writes(port.use) || role == Role::kLoss) continue;
    const auto sum = gradients.find(tensor);
    const bool gradient = role == Role::kWeightGradient;
    if (gradient ? sum == gradients.end() : !is_there(tensor)) {
      made.wrong.text =
          fmt::format("{} is written, which none of its ops makes", g_->tensor(tensor).name);
      return made;
    }
    made.ports[k] = {
        {compiled.boxes[k], gradient ? sum->second : SumTerms{{TermTable::kWholePath, 1, {}}}}};
  }
  return made;
}

ProofWrong SegmentTransfer::RunOp(const CompiledOp& compiled, Range group) {
  const Op& op = g_->ops()[static_cast<size_t>(compiled.op)];
  std::vector<const ValueParts*> inputs;
  for (const Operand& input : op.inputs) {
    inputs.push_back(Local(input.tensor));
    if (inputs.back() != nullptr) continue;
    return {ProofFault::kNotWhole,
            fmt::format("{} reads {}, which no port brings and no op before it makes", op.name,
                        g_->tensor(input.tensor).name)};
  }
  std::vector<ValueParts> outputs;
  std::string wrong = ops_->Run(compiled.op, compiled.ranges, group, inputs, outputs);
  if (!wrong.empty()) return {ProofFault::kNotWhole, std::move(wrong)};
  for (size_t o = 0; o < outputs.size(); ++o) {
    const TensorId tensor = op.outputs[o].tensor;
    if (g_->tensor(tensor).role == Role::kWeightGradient) {
      AddTo(tensor, outputs[o]);
    } else {
      Store(tensor, std::move(outputs[o]));
    }
  }
  return {};
}

SegmentTransfer::Made SegmentTransfer::EvaluateOpaque(int32_t id, const Key& key) {
  const Segment& segment = p_.segment(id);
  const Compiled& compiled = compiled_[static_cast<size_t>(id)];
  Made made;
  made.ports.resize(segment.ports.size());
  for (size_t k = 0; k < key.size(); ++k) {
    const std::string& name = p_.tensor(segment.ports[k].tensor).name;
    if (key[k] != kNoInput && key[k] != TermTable::kWhole) {
      made.wrong = {ProofFault::kNotWhole, fmt::format("{} is not whole where it is read", name)};
      return made;
    }
  }
  const Range layers{segment.first_layer, segment.last_layer + 1};
  for (size_t k = 0; k < segment.ports.size(); ++k) {
    const Port& port = segment.ports[k];
    if (!Writes(port.use)) continue;
    SumTerm term{TermTable::kWholePath, 1, {}};
    if (p_.tensor(port.tensor).role == Role::kWeightGradient) {
      const PathId path = terms_.PathOf({-1, {}, {{'l', layers, layers}}});
      term = {path, 1, segment.rows};
    }
    made.ports[k] = {{compiled.boxes[k], {term}}};
  }
  return made;
}

// --- Updates ---------------------------------------------------------------------------------

ProofWrong SegmentTransfer::Update(int32_t id, const UpdateOwner& owner,
                                   std::vector<ValueParts>& ports, bool accumulate) {
  const Segment& segment = p_.segment(id);
  if (g_ == nullptr) return UpdateOpaque(segment, owner, ports);
  const Compiled& compiled = compiled_[static_cast<size_t>(id)];
  Forget();
  for (size_t k = 0; k < ports.size(); ++k) {
    const PortUse use = segment.ports[k].use;
    const bool there =
        Reads(use) || use == PortUse::kAccumulate || (use == PortUse::kAdd && accumulate);
    if (there) Store(ids_[static_cast<size_t>(segment.ports[k].tensor)], ports[k]);
  }
  for (const CompiledOp& op : compiled.ops) {
    const bool update = g_->ops()[static_cast<size_t>(op.op)].phase == Phase::kUpdate;
    ProofWrong wrong = update ? RunUpdate(op, owner) : RunOp(op, segment.rows);
    if (!wrong.text.empty()) return wrong;
  }
  for (size_t k = 0; k < ports.size(); ++k) {
    if (!Writes(segment.ports[k].use)) continue;
    const ValueParts* value = Local(ids_[static_cast<size_t>(segment.ports[k].tensor)]);
    if (value == nullptr) {
      return {ProofFault::kWrongVersion, fmt::format("{} is written, which none of its ops makes",
                                                     p_.tensor(segment.ports[k].tensor).name)};
    }
    ports[k] = *value;
  }
  return {};
}

ProofWrong SegmentTransfer::CheckGradient(int32_t tensor, const ValueParts& parts,
                                          const UpdateOwner& owner, const std::string& user,
                                          int64_t step) const {
  for (const ValuePart& part : parts) {
    std::string fault = sums_.Fault(tensor, part.terms, step);
    if (fault.empty()) continue;
    return {ProofFault::kWrongGradient,
            fmt::format("{} on device {} {} when {} uses it", p_.tensor(tensor).name, owner.device,
                        fault, user)};
  }
  return {};
}

// All parts of a weight, or of what the optimizer keeps of it, have one version.
ProofWrong SegmentTransfer::VersionOf(int32_t tensor, const ValueParts& parts,
                                      const UpdateOwner& owner, const std::string& user,
                                      std::optional<int64_t>& version) const {
  const std::string& name = p_.tensor(tensor).name;
  for (const ValuePart& part : parts) {
    const bool whole = part.terms.size() == 1 && part.terms[0].path == TermTable::kWholePath &&
                       part.terms[0].factor == 1;
    if (!whole) {
      return {ProofFault::kNotWhole,
              fmt::format("{} on device {} is not whole when {} changes it: it has {}", name,
                          owner.device, user, terms_.Describe(part.terms))};
    }
    const int64_t here = part.terms[0].tag.begin;
    if (!version) version = here;
    if (*version == here) continue;
    return {ProofFault::kWrongVersion,
            fmt::format("{} on device {} is {} and not {} when {} changes it", name, owner.device,
                        rules_.Print(here), rules_.Print(*version), user)};
  }
  return {};
}

// The step whose gradient an update wants; of a replica's any, which the rules look at.
int64_t SegmentTransfer::StepFor(int32_t gradient, const ValueParts& parts, int64_t version) const {
  if (!rules_.local()) return version;
  const bool any = !parts.empty() && !parts[0].terms.empty();
  return any ? std::max<int64_t>(0, sums_.StepOf(gradient, parts[0].terms)) : 0;
}

ProofWrong SegmentTransfer::SquareOf(const CompiledOp& compiled, const UpdateOwner& owner) {
  const Op& op = g_->ops()[static_cast<size_t>(compiled.op)];
  const int32_t gradient = tensors_[static_cast<size_t>(op.inputs[0].tensor.value)];
  const ValueParts& parts = *Local(op.inputs[0].tensor);
  const bool any = !parts.empty() && !parts[0].terms.empty();
  const int64_t step = any ? sums_.StepOf(gradient, parts[0].terms) : 0;
  ProofWrong wrong = CheckGradient(gradient, parts, owner, op.name, step);
  if (!wrong.text.empty()) return wrong;
  ValuePart norm{boxes_.Of({}), {}};
  for (const ValuePart& part : parts) {
    std::vector<LetterCut> cuts;
    for (size_t axis = 0; axis < op.inputs[0].letters.size(); ++axis) {
      const char letter = op.inputs[0].letters[axis];
      const Range whole{0, op.extents[op.IndexOf(letter)]};
      const Range here = boxes_[part.box][axis];
      if (here != whole) cuts.push_back({letter, here, whole});
    }
    const PathId path = terms_.PathOf({compiled.op, {}, cuts});
    TermTable::Add(norm.terms, {path, 1, {step, step + 1}});
  }
  AddTo(op.outputs[0].tensor, {norm});
  return {};
}

ProofWrong SegmentTransfer::RunUpdate(const CompiledOp& compiled, const UpdateOwner& owner) {
  const Op& op = g_->ops()[static_cast<size_t>(compiled.op)];
  for (const Operand& input : op.inputs) {
    const ValueParts* parts = Local(input.tensor);
    const BoxId box = ops_->BoxOf(op, input, compiled.ranges, {});
    if (parts != nullptr && (ElementsOf(boxes_[box]) == 0 || Fill(boxes_, box, *parts))) continue;
    return {ProofFault::kNotWhole, fmt::format("{} on device {} has not the part {} that {} takes",
                                               g_->tensor(input.tensor).name, owner.device,
                                               PrintBox(boxes_[box]), op.name)};
  }
  if (op.kind == OpKind::kSquareSum) return SquareOf(compiled, owner);
  std::optional<int64_t> version;
  const auto tensor_of = [&](size_t k) {
    return tensors_[static_cast<size_t>(op.inputs[k].tensor.value)];
  };
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    if (p_.tensor(tensor_of(k)).role == Role::kWeightGradient) continue;
    ProofWrong wrong =
        VersionOf(tensor_of(k), *Local(op.inputs[k].tensor), owner, op.name, version);
    if (!wrong.text.empty()) return wrong;
  }
  if (!version) return {};  // nothing of it is here
  int64_t step = -1;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    if (p_.tensor(tensor_of(k)).role != Role::kWeightGradient) continue;
    const ValueParts& parts = *Local(op.inputs[k].tensor);
    if (step < 0) step = StepFor(tensor_of(k), parts, *version);
    ProofWrong wrong = CheckGradient(tensor_of(k), parts, owner, op.name, step);
    if (!wrong.text.empty()) return wrong;
  }
  std::string wanted;
  const int64_t next = rules_.AfterUpdate(owner.device, owner.replica, *version, step, wanted);
  if (!wanted.empty()) {
    return {ProofFault::kWrongVersion,
            fmt::format("{} on device {} should have {}", op.name, owner.device, wanted)};
  }
  const int64_t number = rules_.UpdatesIn(*version);
  if (op.kind == OpKind::kAdam && owner.number != number) {  // it corrects its means by that
    return {ProofFault::kWrongVersion, fmt::format("{} on device {} is update {} and says it is {}",
                                                   op.name, owner.device, number, owner.number)};
  }
  for (const Operand& output : op.outputs) {
    ValueParts parts = *Local(output.tensor);
    for (ValuePart& part : parts) part.terms = {{TermTable::kWholePath, 1, {next, next}}};
    Store(output.tensor, std::move(parts));
  }
  return {};
}

ProofWrong SegmentTransfer::UpdateOpaque(const Segment& segment, const UpdateOwner& owner,
                                         std::vector<ValueParts>& ports) {
  std::optional<int64_t> version;
  for (size_t k = 0; k < ports.size(); ++k) {
    const Role role = p_.tensor(segment.ports[k].tensor).role;
    if (!Reads(segment.ports[k].use) || (role != Role::kParameter && role != Role::kState))
      continue;
    ProofWrong wrong = VersionOf(segment.ports[k].tensor, ports[k], owner, segment.name, version);
    if (!wrong.text.empty()) return wrong;
  }
  if (!version) return {};
  int64_t step = -1;
  for (size_t k = 0; k < ports.size(); ++k) {
    const int32_t tensor = segment.ports[k].tensor;
    if (p_.tensor(tensor).role != Role::kWeightGradient) continue;
    if (step < 0) step = StepFor(tensor, ports[k], *version);
    ProofWrong wrong = CheckGradient(tensor, ports[k], owner, segment.name, step);
    if (!wrong.text.empty()) return wrong;
  }
  std::string wanted;
  if (step < 0) step = *version;  // it reads no gradient: nothing is said of one
  const int64_t next = rules_.AfterUpdate(owner.device, owner.replica, *version, step, wanted);
  if (!wanted.empty()) {
    return {ProofFault::kWrongVersion,
            fmt::format("{} on device {} should have {}", segment.name, owner.device, wanted)};
  }
  for (size_t k = 0; k < ports.size(); ++k) {
    const Port& port = segment.ports[k];
    const Role role = p_.tensor(port.tensor).role;
    const bool made = port.use == PortUse::kWrite || port.use == PortUse::kChange;
    if (!made || (role != Role::kParameter && role != Role::kState)) continue;
    ports[k] = {
        {BoxOf(port.tensor, port.slice, segment.rows), {{TermTable::kWholePath, 1, {next, next}}}}};
  }
  return {};
}

}  // namespace heddle
