// What is shown of a Race beside its JSON: a chart, a table.
#pragma once

#include <string>

#include "lab/race_json.h"
#include "report/line_chart.h"
#include "report/text_table.h"

namespace heddle {

// Panels by noise and stages; on a logarithmic axis what is left above the lowest loss.
LineChart RaceChart(const RaceSubject& subject, const RaceOptions& options, const Race& race);

std::string RaceText(const RaceSubject& subject, const RaceOptions& options, const Race& race,
                     const TableStyle& style);

}  // namespace heddle
