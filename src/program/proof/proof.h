// Proof: does a Program train right?
//
//   const Proof proof = ProveProgram(program, &graph, steps);
//   if (proof.finding) std::cerr << proof.finding->message;      // at most one: the first
//   if (!proof.unknown.empty()) …                                // nothing is said, and why
//
// It walks the lists with values that say which terms of which sums a buffer has, of which samples
// and which version (sum_terms.h), instead of numbers. When nothing is found and nothing unknown,
// every update uses the gradient of every sample of its step, once, at the scale of the whole
// batch, and every device's weights are those that the rule of the header says. docs/proof.md has
// the argument.
//
// REQUIRES: messages match, lists come to an end, and nothing is read before it is written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/proof/segment_transfer.h"
#include "program/unroll.h"

namespace heddle {

struct ProofFinding {
  ProofFault fault = ProofFault::kNotWhole;
  int32_t device = -1;
  std::string message;  // a sentence that names tensor, device and samples
};

struct Proof {
  std::optional<ProofFinding> finding;
  std::string unknown;
};

Proof ProveProgram(const Program& program, const Graph* graph, const std::vector<Step>& steps);

}  // namespace heddle
