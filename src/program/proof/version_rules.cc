#include "program/proof/version_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "program/proof/rule_ages.h"

namespace heddle {
namespace {

bool HasReplicas(const Program& program) {
  return std::any_of(program.devices.begin(), program.devices.end(),
                     [](const DeviceProgram& device) {
                       return std::any_of(device.holds.begin(), device.holds.end(),
                                          [](const BufferRef& ref) { return ref.replica >= 0; });
                     });
}

}  // namespace

VersionRules::VersionRules(const Program& program, bool relative) : p_(program) {
  const bool stated = program.rule != UpdateRule::kUnstated;
  if (!stated && relative) unknown_ = "its header does not state which versions are read (update)";
  if (!stated && HasReplicas(program)) unknown_ = "its header does not state an average (update)";
  steps_per_body_ = StepsPerBody(program);
  if (local()) {
    steps_per_body_ = std::accumulate(p_.local_steps.begin(), p_.local_steps.end(), int64_t{0});
  }
  const auto count = std::ssize(program.microbatch_rows);
  if (count == 0 || count < steps_per_body_ || (local() && count % steps_per_body_ != 0)) {
    unknown_ = fmt::format("{} microbatches are not those of {} updates", count, steps_per_body_);
    return;
  }
  first_row_ = {0};
  for (const int64_t rows : program.microbatch_rows) first_row_.push_back(first_row_.back() + rows);
  for (int64_t m = 0; m < count; ++m) {
    const bool begins = m == 0 || m * steps_per_body_ / count > (m - 1) * steps_per_body_ / count;
    if (begins) step_rows_.push_back(first_row_[static_cast<size_t>(m)]);
  }
  step_rows_.push_back(first_row_.back());
  StagesBehind behind(program);
  behind_ = std::move(behind.of_device);
  stages_ = behind.stages;
  outside_ = relative ? StepsOutsideBody(program) : 0;
}

int64_t VersionRules::StepOf(int64_t microbatch) const {
  const auto count = std::ssize(p_.microbatch_rows);
  return microbatch / count * steps_per_body_ + microbatch % count * steps_per_body_ / count;
}

int64_t VersionRules::FirstSampleOf(int64_t microbatch) const {
  const auto count = std::ssize(p_.microbatch_rows);
  return microbatch / count * first_row_.back() +
         first_row_[static_cast<size_t>(microbatch % count)];
}

Range VersionRules::SamplesOf(int64_t step) const {
  const int64_t first = step / steps_per_body_ * first_row_.back();
  const auto k = static_cast<size_t>(step % steps_per_body_);
  return {first + step_rows_[k], first + step_rows_[k + 1]};
}

int64_t VersionRules::StepOfSample(int64_t sample) const {
  const int64_t all = std::max<int64_t>(1, first_row_.back());
  const auto after = std::upper_bound(step_rows_.begin(), step_rows_.end() - 1, sample % all);
  return sample / all * steps_per_body_ + (after - step_rows_.begin()) - 1;
}

int64_t VersionRules::Age(int32_t device, bool backward) const {
  const LayerAge age = AgeByRule(p_.rule, behind_[static_cast<size_t>(device)], stages_);
  return backward ? age.backward : age.forward;
}

int32_t VersionRules::ReplicaOf(int32_t device, int32_t replica) const {
  return replica < 0 ? device : replica;
}

// The batch that an update of a replica sees is one for all its weights.
std::string VersionRules::Claim(int32_t replica, int64_t updates, int64_t step) {
  const auto [found, is_new] = steps_.try_emplace({replica, updates}, step);
  if (is_new) {
    for (const auto& [whose, other] : steps_) {
      if (other != step || whose == found->first) continue;
      steps_.erase(found);
      return fmt::format("the version of update {} of replica {}, whose batch this is",
                         whose.second, whose.first);
    }
    return "";
  }
  if (found->second == step) return "";
  const Range samples = SamplesOf(found->second);
  return fmt::format("that of samples {}..{}, the batch of update {} of replica {}", samples.begin,
                     samples.end - 1, updates, replica);
}

std::string VersionRules::CheckRead(int32_t device, const Segment& segment, int64_t step,
                                    int32_t replica, int64_t version) {
  if (!local()) {
    const bool backward = segment.phase != SegmentPhase::kForward || segment.recompute;
    const int64_t expected = std::max<int64_t>(0, step - Age(device, backward));
    return version == expected ? "" : Print(expected);
  }
  const int32_t own = ReplicaOf(device, replica);
  const bool first = version == 0;
  if (!first && version / kReplica != own + 1) return fmt::format("one of replica {}", own);
  return Claim(own, version % kReplica, step);
}

int64_t VersionRules::AfterUpdate(int32_t device, int32_t replica, int64_t version, int64_t step,
                                  std::string& wrong) {
  if (!local()) {
    if (step != version) wrong = fmt::format("the gradient of step {}", version);
    return version + 1;
  }
  const int32_t own = ReplicaOf(device, replica);
  if (version != 0 && version / kReplica != own + 1) {
    wrong = fmt::format("a weight of replica {}", own);
    return version;
  }
  wrong = Claim(own, version % kReplica, step);
  return Own(own, version % kReplica + 1);
}

bool VersionRules::IsAverage(const std::vector<std::pair<int64_t, double>>& shares) const {
  if (!local() || shares.size() != p_.local_steps.size()) return false;
  for (size_t r = 0; r < shares.size(); ++r) {
    const int64_t steps = p_.local_steps[r];
    const auto last = std::find_if(shares.begin(), shares.end(), [&](const auto& share) {
      return share.first == Own(static_cast<int32_t>(r), steps);
    });
    if (last == shares.end()) return false;
    const double weight = static_cast<double>(steps) / static_cast<double>(steps_per_body_);
    if (std::abs(last->second - weight) > 1e-9) return false;
  }
  return true;
}

int64_t VersionRules::VersionAfter(int64_t repetitions) const {
  return local() ? kAveraged : repetitions * steps_per_body_ + outside_;
}

std::string VersionRules::Print(int64_t version) const {
  if (!local()) return fmt::format("version {}", version);
  if (version == kAveraged) return "the average of the replicas";
  if (version == 0) return "the average before";
  return fmt::format("replica {} after {} of its updates", version / kReplica - 1,
                     version % kReplica);
}

}  // namespace heddle
