// A time that no order of a partition can beat, whatever the stages and channels do when.
//
// Every step of every microbatch has a head, before which it cannot start, and a tail, what surely
// comes after it: the way of its microbatch, the work of its machine that must be done before or
// after it, and the backwards that memory makes a forward wait for. For each machine, its steps
// between their heads and tails, preemption allowed, are the one-machine problem that Jackson's
// rule solves (Carlier 1982); the bound is the largest of all.
#pragma once

#include <vector>

#include "plan/order/chain_steps.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

// On the makespan, with the limits of memory.
double OrderBound(const PipeShape& shape);

// One step of one microbatch as a task of its machine.
struct MachineTask {
  double head = 0;
  double seconds = 0;
  double tail = 0;
};

// Task m · steps.size() + t is step t of microbatch m.
std::vector<MachineTask> ChainTasks(const PipeShape& shape, const std::vector<ChainStep>& steps);

// The shortest makespan of one machine with these tasks if it may interrupt them.
double OneMachineBound(std::vector<MachineTask> tasks);

}  // namespace heddle
