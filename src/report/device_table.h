// DeviceTable: where each device stands in a plan and how it is used.
//
//   device            stage  layers          busy    idle  peak memory
//   ────────────────  ─────  ──────  ────────────  ──────  ───────────
//   a0:0 … a3:7 (32)      0     0-5       38.0 ms      7%     9.80 GiB
//   b0:0 … b3:7 (32)      1    6-11  36.1-36.4 ms  11-12%     8.10 GiB
//
// A few devices have a row each. Of more, those of the same stage (of any pipeline) or share, of
// the same memory, whose figures are within 2%, share a row with the least and the most of what
// differs. Where rows are still many all such devices do, whatever their figures; and then rows in
// the middle are left out.
#pragma once

#include <string>
#include <vector>

#include "program/plan/plan.h"
#include "report/text_table.h"
#include "simulate/simulator.h"

namespace heddle {

// "a:0", "a:0 a:1", "a0:0 … a7:7 (64)"
std::string FoldedNames(const std::vector<std::string>& names);

// With `all`, a row for each device.
std::string DeviceTableText(const Plan& plan, const Simulation& simulation, const TableStyle& style,
                            bool all);

}  // namespace heddle
