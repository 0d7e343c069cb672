// Sparkline: a curve in one line of text.
//
//   Sparkline({4, 3, 2, 1}, 4)  ->  "█▆▃▁"
#pragma once

#include <span>
#include <string>

namespace heddle {

// At most `width` columns, each the mean of the values it stands for. Values that are no numbers
// show as '?'; all equal ones as a flat line.
std::string Sparkline(std::span<const double> values, int width);

}  // namespace heddle
