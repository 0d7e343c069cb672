// VersionRules: which step a sample belongs to, and which version of a weight it may read.
//
// A version counts updates. Under LocalSGD, where replicas go their own way, a version is how many
// updates of its own which replica has made since they were averaged, and which of the body's
// batches they saw: the same for all its weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/program.h"
#include "program/unroll.h"

namespace heddle {

class VersionRules {
 public:
  VersionRules(const Program& program, bool relative);

  // Why nothing is said about versions; empty where something is.
  const std::string& unknown() const { return unknown_; }

  int64_t StepOf(int64_t microbatch) const;
  int64_t FirstSampleOf(int64_t microbatch) const;
  Range SamplesOf(int64_t step) const;  // counted from the first repetition's first
  int64_t StepOfSample(int64_t sample) const;

  // May the device's segment, working for this step on behalf of a replica (-1: its own), read the
  // version? Empty, or which one it should.
  std::string CheckRead(int32_t device, const Segment& segment, int64_t step, int32_t replica,
                        int64_t version);
  // The version that comes after an update by the gradient of a step; `wrong` if there is none.
  int64_t AfterUpdate(int32_t device, int32_t replica, int64_t version, int64_t step,
                      std::string& wrong);
  // How many updates of its own a version has seen.
  int64_t UpdatesIn(int64_t version) const { return local() ? version % kReplica : version; }
  // What is an average as the rule states gets the version that comes after.
  bool local() const { return p_.rule == UpdateRule::kLocal; }
  bool IsAverage(const std::vector<std::pair<int64_t, double>>& shares) const;

  // What every device must hold after so many repetitions.
  int64_t VersionAfter(int64_t repetitions) const;
  std::string Print(int64_t version) const;

 private:
  static constexpr int64_t kReplica = int64_t{1} << 24;  // versions of a replica, and its number
  static constexpr int64_t kAveraged = kReplica - 1;

  int32_t ReplicaOf(int32_t device, int32_t replica) const;
  int64_t Own(int32_t replica, int64_t updates) const { return (replica + 1) * kReplica + updates; }
  std::string Claim(int32_t replica, int64_t updates, int64_t step);
  int64_t Age(int32_t device, bool backward) const;

  const Program& p_;
  std::string unknown_;
  int64_t steps_per_body_ = 1;
  int64_t outside_ = 0;             // steps of prologue and epilogue
  std::vector<int64_t> first_row_;  // of each microbatch, and the end
  std::vector<int64_t> step_rows_;  // of each step of a body, and the end
  std::vector<int64_t> behind_;     // by device: stages after its own
  int64_t stages_ = 1;
  std::map<std::pair<int32_t, int64_t>, int64_t> steps_;  // LocalSGD: by replica and its update
};

}  // namespace heddle
