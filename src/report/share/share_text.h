// What heddle share prints.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "report/text_table.h"
#include "share/baselines.h"
#include "share/share_plan.h"

namespace heddle {

// Baselines by group; empty where none were asked for.
using GroupBaselines = std::vector<std::vector<ShareBaseline>>;

std::string ShareText(const ShareInputs& inputs, const SharePlan& plan,
                      const GroupBaselines& baselines, const TableStyle& style);
Json ShareJson(const ShareInputs& inputs, const SharePlan& plan, const GroupBaselines& baselines);

}  // namespace heddle
