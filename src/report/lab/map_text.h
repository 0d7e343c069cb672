// What is shown of a Map: JSON, a picture, tables.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "lab/map.h"
#include "report/heat_map.h"
#include "report/text_table.h"

namespace heddle {

Json MapJson(const MapOptions& options, const Map& map);

// A panel for each noise and H; stages across, rows per parameter down.
HeatMap HeatMapOf(const MapOptions& options, const Map& map);

// A table for each H; with `all` one line for each cell.
std::string MapText(const MapOptions& options, const Map& map, bool all, const TableStyle& style);

}  // namespace heddle
