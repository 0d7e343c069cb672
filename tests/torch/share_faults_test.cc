// heddle share --run when a job is killed or hangs at a chosen point: it is named, the others go on
// and have the parameters that they have alone.
//
// What the others waited is printed, and judged by nobody: that hangs with the machine.
// docs/share.md has a table of it; that they wait less than 2 s by their rules is tested where
// those are (board_leases_test.cc, supervisor_test.cc).
//
//
//   build/tests/torch_tests --gtest_filter='*ShareFaults*' --gtest_repeat=5 | grep waited

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "support/background.h"
#include "support/places.h"
#include "support/scratch_folder.h"
#include "torch/share_fixture.h"

namespace heddle {
namespace {

using testing::HasSubstr;

struct Case {
  const char* name;
  const char* fault;   // of rank 1 of job a
  const char* reason;  // as its failure is told
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

constexpr int kSteps = 16;

constexpr char kKilled[] = "a: failed: device 1 (b:0): was killed by signal 9";
constexpr Case kCases[] = {
    {"KilledBeforeItsFirstStep", "at=before-first-step do=kill", kKilled},
    {"KilledHoldingADevice", "at=holding step=6 do=kill", kKilled},
    {"KilledInACollective", "at=in-collective step=6 do=kill", kKilled},
    {"KilledHoldingTheNetwork", "at=holding-network step=6 do=kill", kKilled},
    {"HangsBeforeItsFirstStep", "at=before-first-step do=hang",
     "a: failed: rank 1 hangs: it did not come for its turn on device 1"},
    {"HangsHoldingADevice", "at=holding step=6 do=hang",
     "a: failed: rank 1 hangs: it kept device 1"},
    {"HangsInACollective", "at=in-collective step=6 do=hang",
     "a: failed: hangs: it kept the network of node"},
    {"HangsHoldingTheNetwork", "at=holding-network step=6 do=hang",
     "a: failed: hangs: it kept the network of node 1"},
};

class ShareFaults : public testing::TestWithParam<Case> {};

// Nanoseconds, as the rank that fails says before it does.
int64_t TimeOfFault(const std::string& err) {
  const size_t line = err.find("rehearsal: rank 1 of a ");
  EXPECT_NE(line, std::string::npos) << err;
  const size_t comma = err.find(", ", line);
  return line == std::string::npos ? 0 : std::atoll(err.c_str() + comma + 2);
}

// The longest time without a step of this job, less what was usual before the fault.
double WaitedSeconds(const Json& notes, int64_t fault) {
  std::vector<int64_t> ends = notes["step_ends"];
  std::vector<int64_t> gaps, usual;
  if (fault < ends.front()) ends.insert(ends.begin(), fault);
  for (size_t k = 1; k < ends.size(); ++k) {
    gaps.push_back(ends[k] - ends[k - 1]);
    if (ends[k] <= fault) usual.push_back(gaps.back());
  }
  if (usual.empty()) usual = gaps;
  std::sort(usual.begin(), usual.end());
  const int64_t longest = *std::max_element(gaps.begin(), gaps.end());
  return static_cast<double>(longest - usual[usual.size() / 2]) * 1e-9;
}

TEST_P(ShareFaults, TheOthersGoOnAsIfAlone) {
  const Case& one = GetParam();
  const ScratchFolder folder;
  const std::string directory = folder / "run";
  Background share(
      "share " + MakeShareJobs(folder, 3, kSteps) + " --run --one-group --dir " + directory, folder,
      fmt::format("HEDDLE_SHARE_FAULT='job=a rank=1 {}'", one.fault));
  EXPECT_EQ(share.Wait(), 5) << share.err();
  EXPECT_THAT(share.err(), HasSubstr(one.reason));
  const int64_t fault = TimeOfFault(share.err());
  for (const char* job : {"b", "c"}) {
    for (const int rank : {0, 1}) {
      const Json alone = ShareNotes(directory, "alone", job, rank);
      const Json shared = ShareNotes(directory, "shared", job, rank);
      ASSERT_EQ(shared["hashes"].size(), size_t{kSteps}) << share.err();
      EXPECT_EQ(shared["hashes"], alone["hashes"]) << "job " << job << ", rank " << rank;
      fmt::print("{}: {} waited {:.2f} s on rank {}\n", one.name, job, WaitedSeconds(shared, fault),
                 rank);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AJob, ShareFaults, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(ShareFault, AWrongRehearsalIsAnError) {
  const ScratchFolder folder;
  const std::string share = " share " + MakeShareJobs(folder, 2, 4) + " --run --dir ";
  int number = 0;
  for (const char* fault :
       {"at=holding do=hang", "job=a at=nowhere do=hang", "job=a step=1x at=holding do=kill"}) {
    const Ran ran = RunShell(fmt::format("HEDDLE_SHARE_FAULT='{}' {} {} {}", fault, HeddleBinary(),
                                         share, folder / fmt::format("run{}", number++)));
    EXPECT_EQ(ran.exit_code, 4) << fault << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("HEDDLE_SHARE_FAULT")) << fault;
    EXPECT_THAT(ran.err, HasSubstr("at=holding do=hang")) << fault;
  }
}

}  // namespace
}  // namespace heddle
