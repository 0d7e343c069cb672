// The checker: is a Program well formed, and how much memory does it need?
//
//   const Verdict verdict = CheckProgram(program, {.graph = &graph, .capacity = capacities});
//   if (!verdict.ok()) std::cerr << verdict.findings[0].message;
//
// It runs the Program on paper: prologue, a few repetitions of the body, epilogue. A Program that
// passes has no deadlock, reads nothing before it is written or after it is freed, runs every layer
// exactly once per sample, and needs at most `peak` bytes on each device at any time. Unless it
// says that this is not proven, every update uses the right sum of the right samples
// (proof/proof.h).
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "model/graph.h"
#include "program/program.h"

namespace heddle {

enum class FindingKind : uint8_t {
  kUnmatchedSend,        // no receive for it
  kUnmatchedRecv,        // no send for it
  kMessageMismatch,      // the two ends name different buffers
  kDeadlock,             // every device waits
  kReadBeforeWrite,      //
  kUseAfterFree,         //
  kStaleVersion,         // a weight version used after it was freed
  kOverwrite,            // written while still live: something was not freed
  kLeak,                 // memory grows from one repetition to the next
  kLayerMissing,         // a layer, or some of its samples, is not computed
  kLayerTwice,           //
  kUpdateMissing,        // a weight is not updated as often as the header says
  kCollectiveDisagrees,  // members differ in kind, sizes or buffers, or one is missing
  kMemory,               // more than the device has
  kBadSegment,           // names an op that the model lacks, or misses an index its ports need
  kNotWhole,             // a partial sum, or another part of a tensor, where all is needed
  kWrongGradient,        // an update's gradient lacks samples, or has some more than once
  kWrongVersion,         // a weight is of another version than the rule states
};
std::string_view NameOf(FindingKind kind);

struct Finding {
  FindingKind kind;
  int32_t device = -1;
  std::string message;  // names device, section, instruction and buffer
};

struct DeviceMemory {
  Bytes peak;
  Bytes held;  // weights and state that live throughout
};

struct Verdict {
  std::vector<Finding> findings;     // at most kMostFindings
  std::vector<DeviceMemory> memory;  // per device
  std::string not_proven;  // why nothing is said of sums and versions; empty: they are right

  static constexpr size_t kMostFindings = 20;
  bool ok() const { return findings.empty(); }
  void Add(Finding finding) {
    if (findings.size() < kMostFindings) findings.push_back(std::move(finding));
  }
};

struct CheckOptions {
  const Graph* graph = nullptr;  // given: ops are checked against it, and coverage op by op
  std::vector<Bytes> capacity;   // per device; empty: not checked
  bool prove = true;             // also that it trains right
};

Verdict CheckProgram(const Program& program, const CheckOptions& options = {});

// Buffers and memory alone, for those who weigh many Programs and check the chosen one whole.
// like[d]: the first device whose list is the same but for which samples it has; only that one is
// walked.
Verdict CheckMemory(const Program& program, const std::vector<int32_t>& like);

}  // namespace heddle
