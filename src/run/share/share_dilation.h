// How much slower time must go in an emulated share, so that the real work of its jobs fits into
// the time of the modelled cluster.
//
//   const Dilation chosen = DilationFor(jobs, {.serial = true, .cores = 2});
//   chosen.factor
//
// Of a few steps that were not paced a rank knows how long its computes had a processor, and how
// long they took by the clock. The first, with room, is what a machine with nothing else to do
// needs. The second is longer where others want the processors too: time goes slower by as much, as
// far as the run then stays within a minute. Deadlines that are missed tell whether that was
// enough.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "run/share/seat.h"

namespace heddle {

struct CalibratedJob {
  double step_seconds = 0;  // modelled
  int64_t messages = 0;     // of a step, on the device that has most
  int64_t steps = 0;        // that the job will make
  std::vector<RankNotes> ranks;
};

struct DilationOptions {
  bool serial = true;  // jobs also run alone, one after the other
  int cores = 2;
};

struct Dilation {
  double factor = 1;
  double wanted = 1;   // with room for what others do here; more than `factor` if that takes long
  double load = 1;     // how many times as long as on an idle machine computes took
  double seconds = 0;  // that the run takes, at most
};

Dilation DilationFor(std::span<const CalibratedJob> jobs, const DilationOptions& options);

}  // namespace heddle
