// What `heddle lab map` shows of a Map: JSON, a picture, tables.
#pragma once

#include "cli/command.h"
#include "lab/map.h"
#include "report/heat_map.h"

namespace heddle {

Json MapJson(const MapOptions& options, const Map& map);

// A panel for each noise and H; stages across, rows per parameter down.
HeatMap HeatMapOf(const MapOptions& options, const Map& map);

// A table for each H; with `all` one line for each cell.
void PrintMap(const MapOptions& options, const Map& map, bool all, const Terminal& terminal);

}  // namespace heddle
