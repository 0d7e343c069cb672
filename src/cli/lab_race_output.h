// What `heddle lab race` shows of a Race beside its JSON: a chart, a table.
#pragma once

#include "cli/command.h"
#include "lab/race_json.h"
#include "report/line_chart.h"

namespace heddle {

// Panels by noise and stages; on a logarithmic axis what is left above the lowest loss.
LineChart RaceChart(const RaceSubject& subject, const RaceOptions& options, const Race& race);

void PrintRace(const RaceSubject& subject, const RaceOptions& options, const Race& race,
               const Terminal& terminal);

}  // namespace heddle
