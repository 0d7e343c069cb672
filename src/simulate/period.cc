#include "simulate/period.h"

#include <cmath>

#include "base/check.h"

namespace heddle {

Period PeriodOf(std::span<const double> finish, Seconds first) {
  HEDDLE_CHECK(!finish.empty());
  const size_t last = finish.size() - 1;
  const auto took = [&](size_t k) { return finish[k] - finish[k - 1]; };
  const auto mean = [&](size_t count) {
    return Seconds{(finish[last] - finish[last - count]) / static_cast<double>(count)};
  };
  Period period{last == 0 ? first : mean((last + 1) / 2), last < 2};  // too few to tell
  for (size_t length = 1; 2 * length <= last && !period.steady; ++length) {
    period.steady = true;
    for (size_t k = last; k > last - length && period.steady; --k) {
      period.steady = std::abs(took(k) - took(k - length)) <= 1e-9 * took(k);
    }
    if (period.steady) period.seconds = mean(length);
  }
  return period;
}

}  // namespace heddle
