// Standing: who of two methods is ahead, from what both left on the same seeds.
//
//   const auto compared = ComparePaired(local_left, pd_left, 0);
//   compared->ratio.mean                          geometric mean of local over pd, its 95% interval
//   JudgeAll({*compared, …})[0]                   Standing::kAhead: the first of the two is
//
// Seeds share data, start and noise, so each gives one logarithm of a ratio, and those are taken as
// normal. A verdict takes ten seeds that differ. It is a tie if the interval lies within 5% of 1.
// Over many comparisons the false ones among those called ahead or behind are held to 5% on
// average, by the procedure of Benjamini and Hochberg (1995).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/interval.h"

namespace heddle {

inline constexpr int kVerdictSeeds = 10;

enum class Standing : uint8_t { kAhead, kBehind, kTie, kOpen };

struct Paired {
  Interval ratio;     // of the first to the second
  double chance = 1;  // of a mean as far from 1 or farther if neither were ahead
  int seeds = 0;      // that gave values of their own: the same run twice is one
};

// Nothing if a value is not finite or not above `least`. REQUIRES: as many values each, two or
// more.
std::optional<Paired> ComparePaired(std::span<const double> first, std::span<const double> second,
                                    double least);

// Which of the hypotheses with these chances are rejected.
std::vector<bool> BenjaminiHochberg(std::span<const double> chances, double rate);

std::vector<Standing> JudgeAll(const std::vector<std::optional<Paired>>& comparisons);

// "ahead", "behind", "tie", "open"
std::string ToText(Standing standing);
std::optional<Standing> ParseStanding(std::string_view text);

}  // namespace heddle
