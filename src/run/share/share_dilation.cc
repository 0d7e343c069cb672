#include "run/share/share_dilation.h"

#include <algorithm>

#include "run/dilation.h"

namespace heddle {
namespace {

constexpr double kLeastStep = 0.1;         // seconds
constexpr double kMessageSeconds = 0.008;  // each is exact to a fraction of a millisecond
constexpr double kMostSeconds = 45;        // that being busy may make of a run

// What a job's messages need, and what its computing needs of an idle machine.
struct Needs {
  double messages = 0, computes = 0;
};

Needs NeedsOf(const CalibratedJob& job, int cores) {
  Needs needs;
  MeasuredWork work;
  for (const RankNotes& rank : job.ranks) {
    work.longest_ratio = std::max(work.longest_ratio, rank.longest_ratio);
    // The first step is left out: it is cold.
    work.seconds += rank.work / static_cast<double>(std::max<size_t>(2, rank.step_ends.size()) - 1);
  }
  needs.computes = DilationForWork(work, cores, job.step_seconds);
  needs.messages =
      std::max(kLeastStep, kMessageSeconds * static_cast<double>(job.messages)) / job.step_seconds;
  return needs;
}

// More by the clock than by the processor is other programs' doing.
double LoadOf(std::span<const CalibratedJob> jobs) {
  double work = 0, took = 0;
  for (const CalibratedJob& job : jobs) {
    for (const RankNotes& rank : job.ranks) {
      work += rank.work;
      took += rank.work_took;
    }
  }
  return work > 0 ? std::max(1.0, took / work) : 1;
}

}  // namespace

Dilation DilationFor(std::span<const CalibratedJob> jobs, const DilationOptions& options) {
  Dilation dilation;
  dilation.load = LoadOf(jobs);
  double idle = 0, modelled = 0;
  dilation.wanted = 0;
  for (const CalibratedJob& job : jobs) {
    const Needs needs = NeedsOf(job, options.cores);
    idle = std::max({idle, needs.messages, needs.computes});
    dilation.wanted = std::max({dilation.wanted, needs.messages, dilation.load * needs.computes});
    modelled += static_cast<double>(job.steps) * job.step_seconds * (options.serial ? 2 : 1);
  }
  const double within_a_minute = modelled > 0 ? kMostSeconds / modelled : dilation.wanted;
  dilation.factor = std::max(idle, std::min(dilation.wanted, within_a_minute));
  dilation.seconds = dilation.factor * modelled;
  return dilation;
}

}  // namespace heddle
