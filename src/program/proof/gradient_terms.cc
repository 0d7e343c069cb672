#include "program/proof/gradient_terms.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

GradientTerms::GradientTerms(const Program& program, const Graph* graph, const TermTable& terms,
                             const VersionRules& rules)
    : p_(program), graph_(graph), terms_(terms), rules_(rules), producers_(program.tensors.size()) {
  graph != nullptr ? AddOps(*graph) : AddLayers();
}

void GradientTerms::AddOps(const Graph& graph) {
  std::vector<int32_t> tensors(graph.tensors().size(), -1);
  for (size_t t = 0; t < p_.tensors.size(); ++t) {
    const auto id = graph.FindTensor(p_.tensors[t].name);
    if (id) tensors[static_cast<size_t>(id->value)] = static_cast<int32_t>(t);
    if (id && *id == graph.clip_norm()) norm_ = static_cast<int32_t>(t);
  }
  for (size_t op = 0; op < graph.ops().size(); ++op) {
    for (const Operand& output : graph.ops()[op].outputs) {
      if (graph.tensor(output.tensor).role != Role::kWeightGradient) continue;
      const int32_t tensor = tensors[static_cast<size_t>(output.tensor.value)];
      if (tensor < 0) continue;
      producers_[static_cast<size_t>(tensor)].push_back({static_cast<int32_t>(op), {}});
    }
  }
}

// Of ranges that contain each other the least: another pipeline may have cut the layers elsewhere.
void GradientTerms::AddLayers() {
  for (const DeviceProgram& device : p_.devices) {
    for (const auto& list : device.sections) {
      for (const Instruction& in : list) {
        if (in.code != OpCode::kCompute) continue;
        const Segment& segment = p_.segment(in.target);
        const bool works =
            segment.phase != SegmentPhase::kOther && segment.phase != SegmentPhase::kUpdate;
        if (!works) continue;
        for (const Port& port : segment.ports) {
          const bool reads = port.use == PortUse::kRead || port.use == PortUse::kConsume;
          if (reads || p_.tensor(port.tensor).role != Role::kWeightGradient) continue;
          producers_[static_cast<size_t>(port.tensor)].push_back(
              {-1, {segment.first_layer, segment.last_layer + 1}});
        }
      }
    }
  }
  for (std::vector<Producer>& all : producers_) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::vector<Producer> least;
    for (const Producer& one : all) {
      const bool contains = std::any_of(all.begin(), all.end(), [&](const Producer& other) {
        return other != one && other.layers.begin >= one.layers.begin &&
               other.layers.end <= one.layers.end;
      });
      if (!contains) least.push_back(one);
    }
    all = std::move(least);
  }
}

Range GradientTerms::WholeOf(int32_t tensor, int64_t step) const {
  return IsNorm(tensor) ? Range{step, step + 1} : rules_.SamplesOf(step);
}

int64_t GradientTerms::StepOf(int32_t tensor, const SumTerms& terms) const {
  if (terms.empty()) return -1;
  return IsNorm(tensor) ? terms[0].tag.begin : rules_.StepOfSample(terms[0].tag.begin);
}

TimesThere GradientTerms::TimesOf(const Producer& producer, const SumTerms& terms,
                                  int64_t at) const {
  double whole = 0;
  SumTerms own;
  for (const SumTerm& term : terms) {
    if (at < term.tag.begin || at >= term.tag.end) continue;
    if (term.path == TermTable::kWholePath) {
      whole += term.factor;
      continue;
    }
    const TermPath& path = terms_.path(term.path);
    if (producer.op >= 0) {
      if (path.op == producer.op) own.push_back(term);
      continue;
    }
    const Range layers = path.cuts[0].range;
    const bool overlap = layers.begin < producer.layers.end && producer.layers.begin < layers.end;
    if (path.op < 0 && overlap) whole += term.factor;
  }
  if (own.empty()) return {whole, whole};
  const TimesThere times = terms_.TimesOf(producer.op, own);
  return {whole + times.least, whole + times.most};
}

std::string GradientTerms::Fault(int32_t tensor, const SumTerms& terms, int64_t step) const {
  const Range whole = WholeOf(tensor, step);
  std::vector<int64_t> borders = {whole.begin, whole.end};
  for (const SumTerm& term : terms) {
    if (term.factor != 0 && (term.tag.begin < whole.begin || term.tag.end > whole.end)) {
      return fmt::format("has samples {}..{}, which are not of this step,", term.tag.begin,
                         term.tag.end - 1);
    }
    borders.push_back(term.tag.begin);
    borders.push_back(term.tag.end);
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  const std::vector<Producer>& producers = producers_[static_cast<size_t>(tensor)];
  if (producers.empty()) return "is made by nobody";
  for (const Producer& producer : producers) {
    // The first samples that are not there once, and those after them with the same fault.
    Range samples;
    TimesThere fault;
    for (size_t k = 0; k + 1 < borders.size(); ++k) {
      const TimesThere times = TimesOf(producer, terms, borders[k]);
      if (times.once()) {
        if (samples.size() > 0) break;
        continue;
      }
      if (samples.size() == 0) {
        samples.begin = borders[k];
        fault = times;
      } else if (times.least != fault.least || times.most != fault.most) {
        break;
      }
      samples.end = borders[k + 1];
    }
    if (samples.size() == 0) continue;
    return Sentence(tensor, producers.size() > 1 ? &producer : nullptr, samples, fault, step);
  }
  return "";
}

std::string GradientTerms::Sentence(int32_t tensor, const Producer* producer, Range samples,
                                    TimesThere times, int64_t step) const {
  const bool none = times.most == 0;
  std::string of;
  if (producer != nullptr) {
    of = producer->op >= 0
             ? " of " + graph_->ops()[static_cast<size_t>(producer->op)].name
             : fmt::format(" of layers {}..{}", producer->layers.begin, producer->layers.end - 1);
  }
  const std::string amount = times.least == times.most
                                 ? fmt::format("{:g} times", times.most)
                                 : fmt::format("{:g} to {:g} times", times.least, times.most);
  if (IsNorm(tensor)) return fmt::format("has the term{} {}", of, amount);
  const int64_t first = rules_.SamplesOf(step).begin;
  const std::string which =
      fmt::format("samples {}..{}{}", samples.begin - first, samples.end - 1 - first, of);
  if (none) return "lacks " + which;
  if (times.least < 1 && times.most <= 1 && times.least != times.most) {
    return "lacks a part of " + which;
  }
  return fmt::format("has {} {}", which, amount);
}

void GradientTerms::Complete(int32_t tensor, SumTerms& terms) const {
  TermTable::Normalise(terms);
  const bool plain = terms.size() == 1 && terms[0].path == TermTable::kWholePath;
  if (terms.empty() || plain) return;
  const int64_t step = StepOf(tensor, terms);
  if (!Fault(tensor, terms, step).empty()) return;
  terms.assign(1, {TermTable::kWholePath, 1, WholeOf(tensor, step)});
}

}  // namespace heddle
