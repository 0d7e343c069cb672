// Repeated measurements: their median, least and most.
#pragma once

#include <algorithm>
#include <vector>

namespace heddle {

struct Spread {
  double median = 0, least = 0, most = 0;
};

inline Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

}  // namespace heddle
