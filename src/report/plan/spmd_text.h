// An SPMD plan as tables: for each run of layers that are treated alike, in short as `plan` prints
// it, and in full as `explain` does.
#pragma once

#include <string>

#include "cluster/cluster.h"
#include "program/plan/plan.h"
#include "report/text_table.h"

namespace heddle {

// How weights are stored, along which letters ops are divided, what is exchanged; then the ratios.
// REQUIRES of both: plan.spmd.
std::string SpmdText(const Plan& plan, const Graph& graph, const TableStyle& style);

// The state of every tensor, every exchange with its bytes, its group and its time, the ratios.
// Unless `all` is asked for, of long lists only what takes longest.
std::string SpmdExplanation(const Plan& plan, const Graph& graph, const Cluster& cluster,
                            const TableStyle& style, bool all);

}  // namespace heddle
