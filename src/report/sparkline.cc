#include "report/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

namespace heddle {

std::string Sparkline(std::span<const double> values, int width) {
  static constexpr std::array<std::string_view, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const size_t columns = std::min(values.size(), static_cast<size_t>(std::max(0, width)));
  std::vector<double> means;
  for (size_t c = 0; c < columns; ++c) {
    const size_t begin = c * values.size() / columns;
    const size_t end = (c + 1) * values.size() / columns;
    double sum = 0;
    for (size_t k = begin; k < end; ++k) sum += values[k];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  double least = INFINITY, most = -INFINITY;
  for (const double mean : means) {
    if (!std::isfinite(mean)) continue;
    least = std::min(least, mean);
    most = std::max(most, mean);
  }
  std::string line;
  for (const double mean : means) {
    if (!std::isfinite(mean)) {
      line += '?';
      continue;
    }
    const double height = most > least ? (mean - least) / (most - least) : 0;
    line += kBars[static_cast<size_t>(std::lround(height * (kBars.size() - 1)))];
  }
  return line;
}

}  // namespace heddle
