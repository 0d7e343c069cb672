// Lowering of asynchronous pipelines: no flush, weight versions as buffers. Called by lower.h.
//
// Stage s of S runs `warm` = S - 1 - s forwards ahead of its backwards. In repetition r it does
// F #r+warm and B #r, and then updates. S = 3, update of each (stash; versions that are read):
//
//   stage 0   F0@0 F1@0 F2@0 .. .. B0@0 F3@1 B1@0 F4@2 B2@0 F5@3 B3@1
//   stage 1        F0@0 F1@0 .. B0@0 F2@1 B1@0 F3@2 B2@1 F4@3 B3@2
//   stage 2             F0@0 B0@0 F1@1 B1@1 F2@2 B2@2 F3@3 B3@3
//
// With 2BW an update follows M backwards, and a version is a batch of M microbatches old.
//
// Repetitions before `head`, where versions do not follow from the repetition yet, are the
// prologue; the body is one update; the epilogue takes in what the body asked for ahead, drains the
// pipeline and gives the newest version the name @0 again, so that the whole can be run again.
// A Program whose body runs n times updates head + n + tail times.
#pragma once

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"
#include "program/program.h"

namespace heddle {

// Updates outside the body.
struct AsyncEnds {
  int64_t head = 0;  // in the prologue
  int64_t tail = 0;  // in the epilogue
};
AsyncEnds EndsOf(const Plan& plan);

// REQUIRES: ValidatePlan(plan) is ok, and plan.async. An error: weights that two stages share.
Result<Program> LowerAsync(const Plan& plan, const Graph& graph, Program program);

}  // namespace heddle
