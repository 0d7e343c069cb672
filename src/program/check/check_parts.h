// The passes of the checker, in the order they run. Internal to program/.
#pragma once

#include <string>

#include "program/check/check.h"
#include "program/unroll.h"

namespace heddle {

// "device 2 (b:0), body, instruction 7: send x1#0 to 3"
std::string PlaceOf(const Program& program, int32_t device, const Step& step, size_t index);

// Repetitions that are all the same must leave nothing behind, so one is enough; of others, the
// second shows what the first left, and the third whether that goes on growing.
std::vector<Step> StepsToCheck(const Program& program);

// Segments name ops of the model, and compute instructions give the indices their ports need.
void CheckSegments(const Program& program, const CheckOptions& options, Verdict& verdict);
// Sends meet receives and collectives agree, in the order each device posts them.
void CheckMessages(const Program& program, const std::vector<Step>& steps, Verdict& verdict);
// Reads follow writes, nothing is used after it is freed; fills in the peaks.
void CheckBuffers(const Program& program, const std::vector<Step>& steps,
                  const CheckOptions& options, const std::vector<int32_t>& like, Verdict& verdict);
// Walks all devices together until they finish or all wait.
void CheckProgress(const Program& program, const std::vector<Step>& steps, Verdict& verdict);
// Every layer exactly once per sample, every weight updated.
void CheckCoverage(const Program& program, const std::vector<Step>& steps,
                   const CheckOptions& options, Verdict& verdict);

}  // namespace heddle
