// Tried plans: the plan taken beside those that lost, and why the runner-up did.
//
//   tried                               simulated  computes     waits  fullest memory
//   ──────────────────────────────────  ─────────  ────────  ────────  ───────────────
//   1 x 8 devices, ratios by compute      8.46 ms   7.70 ms    760 us  b:0 12%
//   2 x 4 devices, ratios by compute      8.64 ms   7.72 ms    920 us  b:0 12%
//
//   The runner-up (2 x 4 devices, ratios by compute) takes 180 us longer (2%): its busiest device
//     computes 20.0 us longer and waits 160 us longer for exchanges and for others.
#pragma once

#include <string>
#include <vector>

#include "program/plan/plan.h"
#include "report/text_table.h"

namespace heddle {

// All of them, or the best. REQUIRES: at least two, the one taken first.
std::string TriedText(const std::vector<TriedPlan>& tried, const TableStyle& style, bool all);

}  // namespace heddle
