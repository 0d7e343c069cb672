#include "plan/spmd/byte_prices.h"

#include <algorithm>
#include <cmath>

namespace heddle {

bool FindBytePrices(const MemoryLimits& limits, const Potentials::Effort& effort,
                    Potentials& potentials) {
  constexpr double kFirst = 1e-3, kRise = 8;
  constexpr int kRises = 10, kHalvings = 6;
  potentials.Improve(effort);
  const std::vector<double> free = potentials.FavouriteBytes();
  std::vector<double> unit(limits.kinds(), 0);
  for (size_t kind = 0; kind < unit.size(); ++kind) {
    if (free[kind] > limits.room()[kind]) unit[kind] = potentials.bound() / free[kind];
  }
  double best = 0, best_bound = potentials.bound();
  // Whether what is kept at that price is still too much.
  const auto lacks_at = [&](double price) {
    std::vector<double> prices = unit;
    for (double& one : prices) one *= price;
    potentials.SetBytePrices(prices);
    potentials.Improve(effort);
    if (potentials.bound() > best_bound) {
      best_bound = potentials.bound();
      best = price;
    }
    const std::vector<double> kept = potentials.FavouriteBytes();
    double excess = 0;
    for (size_t kind = 0; kind < kept.size(); ++kind) {
      excess += unit[kind] * (kept[kind] - limits.room()[kind]);
    }
    return excess > 0;
  };
  if (std::all_of(unit.begin(), unit.end(), [](double price) { return price == 0; })) return false;
  double low = 0, high = kFirst;
  for (int rise = 0; rise < kRises && lacks_at(high); ++rise) {
    low = high;
    high *= kRise;
  }
  for (int half = 0; half < kHalvings; ++half) {
    const double middle = low > 0 ? std::sqrt(low * high) : high / 2;
    (lacks_at(middle) ? low : high) = middle;
  }
  lacks_at(best);
  return best > 0;
}

}  // namespace heddle
