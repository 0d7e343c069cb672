// GradientTerms: is a weight's gradient the sum that its update needs? Every sample of the step
// once, from each of its producers; of the squared norm, every weight once.
#pragma once

#include <string>
#include <vector>

#include "model/graph.h"
#include "program/program.h"
#include "program/proof/sum_terms.h"
#include "program/proof/version_rules.h"

namespace heddle {

class GradientTerms {
 public:
  // Without a graph, producers are the layers whose segments write a gradient.
  GradientTerms(const Program& program, const Graph* graph, const TermTable& terms,
                const VersionRules& rules);

  // The step that the terms are of, by the first; -1: there is none.
  int64_t StepOf(int32_t tensor, const SumTerms& terms) const;
  // What the terms lack of a step's sum, or have too much; empty if they are it.
  std::string Fault(int32_t tensor, const SumTerms& terms, int64_t step) const;
  // A sum that is complete gets one term.
  void Complete(int32_t tensor, SumTerms& terms) const;

 private:
  // Who adds to a gradient: an op, or a range of layers.
  struct Producer {
    int32_t op = -1;
    Range layers;

    auto operator<=>(const Producer&) const = default;
  };

  void AddOps(const Graph& graph);
  void AddLayers();
  bool IsNorm(int32_t tensor) const { return tensor == norm_; }
  Range WholeOf(int32_t tensor, int64_t step) const;
  TimesThere TimesOf(const Producer& producer, const SumTerms& terms, int64_t at) const;
  std::string Sentence(int32_t tensor, const Producer* producer, Range samples, TimesThere times,
                       int64_t step) const;

  const Program& p_;
  const Graph* graph_;
  const TermTable& terms_;
  const VersionRules& rules_;
  std::vector<std::vector<Producer>> producers_;  // by tensor
  int32_t norm_ = -1;
};

}  // namespace heddle
