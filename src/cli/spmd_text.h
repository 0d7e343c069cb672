// An SPMD plan as a table: for each run of layers that are treated alike, how its weights are
// stored, along which letters its ops are divided, and what is exchanged.
#pragma once

#include <string>

#include "cluster/cluster.h"
#include "program/plan/plan.h"
#include "report/text_table.h"

namespace heddle {

// REQUIRES of both: plan.spmd.
std::string SpmdText(const Plan& plan, const Graph& graph, const TableStyle& style);

// The exchanges that take longest, each by itself on an idle network.
std::string ExchangesText(const Plan& plan, const Graph& graph, const Cluster& cluster,
                          const TableStyle& style);

}  // namespace heddle
