// A cell of the table: what every planner reaches in one case, by our simulator and by SimGrid.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "base/result.h"
#include "spp/cases.h"

namespace heddle {

inline constexpr char kOurs[] = "pipeline";
const std::vector<std::string>& Baselines();

struct SppResult {
  double seconds = 0;   // by our simulator
  double simgrid = 0;   // 0: not asked
  double planning = 0;  // seconds
  std::string plan;     // in short: "4r 2 2, greedy"; r: recomputes
};

struct SppCell {
  std::string name;  // of the case
  int devices = 0;
  int64_t microbatches = 0;
  double bound = 0, order_bound = 0;         // of our plan
  std::map<std::string, SppResult> results;  // by planner; missing: nothing fits
};

// Plans with every planner, and asks SimGrid too if `simgrid`.
Result<SppCell> RunCase(const SppCase& one, bool simgrid);

Json CellToJson(const SppCell& cell);
Result<SppCell> CellFromJson(const JsonField& json);

}  // namespace heddle
