// What `heddle lab race` shows of a Race: JSON, a chart, a table.
#pragma once

#include <string>

#include "cli/command.h"
#include "lab/race.h"
#include "report/line_chart.h"

namespace heddle {

// `name` is that of the objective.
Json RaceJson(const std::string& name, const Objective& objective, const RaceOptions& options,
              const Race& race);

// Panels by noise and stages; on a logarithmic axis what is left above the lowest loss.
LineChart RaceChart(const std::string& name, const Objective& objective, const RaceOptions& options,
                    const Race& race);

void PrintRace(const std::string& name, const Objective& objective, const RaceOptions& options,
               const Race& race, const Terminal& terminal);

}  // namespace heddle
