// Exchanges between devices: what members have before, and what they have then.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"
#include "program/proof/gradient_terms.h"
#include "program/proof/held_value.h"

namespace heddle {

// One member's side of one tensor of a collective.
struct ExchangeSide {
  HeldParts before;
  BoxId from = BoxTable::kNothing;  // the part that it puts in, where the operand names one
  BoxId to = BoxTable::kNothing;    // the part that it asks for, where the output names one
  HeldParts after;                  // filled in
};

class ExchangeTransfer {
 public:
  ExchangeTransfer(const Program& program, BoxTable& boxes, TermTable& terms,
                   const GradientTerms& sums, const VersionRules& rules)
      : p_(program), boxes_(boxes), terms_(terms), sums_(sums), rules_(rules) {}

  // `tensor` of the collective, on all its members in rank order; `lead` is 1 where boxes have an
  // axis before the tensor's own. What is wrong, or nothing.
  std::string Run(const Instruction& collective, int32_t tensor, size_t lead,
                  std::vector<ExchangeSide>& sides);

  // The parts as values with their terms, and back. All that are not zero must be of the same
  // samples: `base`; false where they are not.
  bool ToValues(int32_t tensor, const HeldParts& parts, ValueParts& values, int64_t& base) const;
  HeldParts ToHeld(int32_t tensor, ValueParts values, int64_t base);
  // What is complete becomes whole.
  void Complete(int32_t tensor, ValueParts& values);

  // Whether the parts, cut to a box, are one that is whole, or some of its terms.
  HeldParts Restricted(int32_t tensor, BoxId box, const HeldParts& parts);

 private:
  bool IsGradient(int32_t tensor) const { return p_.tensor(tensor).role == Role::kWeightGradient; }
  bool IsWeight(int32_t tensor) const {
    const Role role = p_.tensor(tensor).role;
    return role == Role::kParameter || role == Role::kState;
  }
  std::string Sum(int32_t tensor, std::vector<ExchangeSide>& sides, bool scatters,
                  const Division* division, size_t axis);
  std::string Gather(int32_t tensor, std::vector<ExchangeSide>& sides, const Division& division,
                     size_t axis);
  std::string AllToAll(int32_t tensor, std::vector<ExchangeSide>& sides,
                       const CollectiveShape& shape, size_t lead);
  std::string Join(int32_t tensor, const std::vector<ExchangeSide>& sides, ValueParts& values,
                   int64_t& base);

  const Program& p_;
  BoxTable& boxes_;
  TermTable& terms_;
  const GradientTerms& sums_;
  const VersionRules& rules_;
};

}  // namespace heddle
