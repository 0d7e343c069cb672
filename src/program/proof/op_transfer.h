// OpTransfer: what an op makes of the terms of its operands.
//
// What an op reads that it is not linear in must be whole. An op linear in an operand carries the
// terms of that operand along, a product those of both. An addition takes terms in all operands,
// and so counts a whole operand once on every device that adds it. An op that computes only a part
// of a letter that it contracts makes a term of its own.
#pragma once

#include <string>
#include <vector>

#include "model/graph.h"
#include "program/proof/box_table.h"
#include "program/proof/sum_terms.h"
#include "program/proof/value_parts.h"

namespace heddle {

// A statistic belongs to several samples together: what flows, and has no axis of samples.
bool IsStatistic(const Tensor& tensor);

class OpTransfer {
 public:
  OpTransfer(const Graph& graph, BoxTable& boxes, TermTable& terms)
      : g_(graph), boxes_(boxes), terms_(terms) {}

  // `ranges` are those of the op's letters, samples counted from the microbatch's first; `group`
  // the samples that the segment works on, all devices together. `inputs` as the op's. Empty if all
  // is well; else what is not. The samples of weight gradients are counted as `ranges` are.
  std::string Run(int32_t op, const std::vector<Range>& ranges, Range group,
                  const std::vector<const ValueParts*>& inputs, std::vector<ValueParts>& outputs);

  // The part of an operand under such ranges.
  BoxId BoxOf(const Op& op, const Operand& operand, const std::vector<Range>& ranges, Range group);

 private:
  struct Work;

  bool IsPlain(const ValueParts& parts) const;
  std::string CheckOperands(Work& work);
  void MakeWhole(const Work& work, size_t o, ValueParts& made);
  void Carry(const Work& work, const std::vector<size_t>& operands, size_t o, ValueParts& made);
  void CarryParts(const Work& work, const std::vector<size_t>& operands,
                  const std::vector<const ValuePart*>& parts, size_t o, ValueParts& made);
  // Of a part of an operand, or of all (-1): the terms that output o has of it.
  bool CutsOf(const Work& work, size_t o, const std::vector<Range>& ranges, bool& blocked,
              std::vector<LetterCut>& cuts) const;
  Range SamplesOf(const Work& work, const std::vector<Range>& ranges) const;

  const Graph& g_;
  BoxTable& boxes_;
  TermTable& terms_;
};

std::string PrintBox(const Slice& slice);

}  // namespace heddle
