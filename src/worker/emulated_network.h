// The simulator's network for an emulation, and the emulation of a plan.
#pragma once

#include <memory>

#include "plan/planning.h"
#include "program/program.h"
#include "run/emulation.h"

namespace heddle {

// The plan's cluster, devices and links, with `run_dtype` as the type that is really computed in.
Result<std::unique_ptr<Emulation>> EmulatePlan(const LoadedPlan& loaded, const Program& program,
                                               DType run_dtype);

// Its devices alone: messages take the links there are.
Result<std::unique_ptr<Emulation>> EmulateDevices(const LoadedPlan& loaded, const Program& program,
                                                  DType run_dtype);

}  // namespace heddle
