#include "lab/standing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "base/check.h"

namespace heddle {
namespace {

constexpr double kRate = 0.05;  // of false verdicts
constexpr double kTie = 0.05;   // around 1

constexpr std::array<std::string_view, 4> kNames = {"ahead", "behind", "tie", "open"};

}  // namespace

std::optional<Paired> ComparePaired(std::span<const double> first, std::span<const double> second,
                                    double least) {
  HEDDLE_CHECK(first.size() == second.size() && first.size() >= 2);
  std::vector<double> logarithms;
  std::set<std::pair<double, double>> different;
  for (size_t k = 0; k < first.size(); ++k) {
    const bool usable = first[k] > least && second[k] > least && std::isfinite(first[k]) &&
                        std::isfinite(second[k]);
    if (!usable) return std::nullopt;
    logarithms.push_back(std::log(first[k] / second[k]));
    different.emplace(first[k], second[k]);
  }
  const Interval mean = MeanInterval(logarithms);
  const int freedom = static_cast<int>(logarithms.size()) - 1;
  const double error = (mean.high - mean.mean) / StudentQuantile(freedom);
  Paired paired;
  paired.ratio = {std::exp(mean.mean), std::exp(mean.low), std::exp(mean.high)};
  paired.seeds = static_cast<int>(different.size());
  if (error > 0) {
    paired.chance = BeyondStudent(mean.mean / error, freedom);
  } else {
    paired.chance = mean.mean == 0 ? 1 : 0;
  }
  return paired;
}

std::vector<bool> BenjaminiHochberg(std::span<const double> chances, double rate) {
  std::vector<size_t> order(chances.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return chances[a] < chances[b]; });
  size_t rejected = 0;  // the most k with p_(k) <= rate · k / m
  for (size_t k = 0; k < order.size(); ++k) {
    const double limit = rate * static_cast<double>(k + 1) / static_cast<double>(order.size());
    if (chances[order[k]] <= limit) rejected = k + 1;
  }
  std::vector<bool> result(chances.size());
  for (size_t k = 0; k < rejected; ++k) result[order[k]] = true;
  return result;
}

std::vector<Standing> JudgeAll(const std::vector<std::optional<Paired>>& comparisons) {
  std::vector<double> chances;
  std::vector<size_t> judged;
  for (size_t k = 0; k < comparisons.size(); ++k) {
    if (!comparisons[k] || comparisons[k]->seeds < kVerdictSeeds) continue;
    judged.push_back(k);
    chances.push_back(comparisons[k]->chance);
  }
  const std::vector<bool> differs = BenjaminiHochberg(chances, kRate);
  std::vector<Standing> verdicts(comparisons.size(), Standing::kOpen);
  for (size_t k = 0; k < judged.size(); ++k) {
    const Interval& ratio = comparisons[judged[k]]->ratio;
    Standing& verdict = verdicts[judged[k]];
    if (ratio.low >= 1 - kTie && ratio.high <= 1 + kTie) {
      verdict = Standing::kTie;
    } else if (differs[k]) {
      verdict = ratio.mean < 1 ? Standing::kAhead : Standing::kBehind;
    }
  }
  return verdicts;
}

std::string ToText(Standing standing) { return std::string(kNames[static_cast<size_t>(standing)]); }

std::optional<Standing> ParseStanding(std::string_view text) {
  for (size_t k = 0; k < kNames.size(); ++k) {
    if (kNames[k] == text) return static_cast<Standing>(k);
  }
  return std::nullopt;
}

}  // namespace heddle
