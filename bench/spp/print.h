// The table of the comparison, as Markdown on standard output.
#pragma once

#include <vector>

#include "spp/cell.h"

namespace heddle {

void PrintSppTable(const std::vector<SppCell>& cells);

}  // namespace heddle
