// A time that no order of a partition can beat, whatever the stages and channels do when.
//
// Every step of every microbatch has a head, before which it cannot start, and a tail, what surely
// comes after it: the way of its microbatch, the work of its machine that must be done before or
// after it, and the backwards that memory makes a forward wait for. For each machine, its steps
// between their heads and tails, preemption allowed, are the one-machine problem that Jackson's
// rule solves (Carlier 1982); the bound is the largest of all.
#pragma once

#include "plan/order/pipe_shape.h"

namespace heddle {

// On the makespan, with the limits of memory.
double OrderBound(const PipeShape& shape);

}  // namespace heddle
