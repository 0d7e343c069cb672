// ForwardOnly: the Program that only looks: the forward pass of another, on the same devices, in
// the same order. For losses on held-out samples.
#pragma once

#include "program/program.h"

namespace heddle {

// REQUIRES: a synchronous Program, as LowerPlan makes them: a body without prologue and epilogue.
Program ForwardOnly(const Program& program);

}  // namespace heddle
