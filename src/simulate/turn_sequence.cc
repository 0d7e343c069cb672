#include "simulate/turn_sequence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// How many turns each job has: those whose proportions are nearest to the rates'.
std::vector<int> CountsOf(std::span<const double> rates, int most) {
  const double largest = *std::max_element(rates.begin(), rates.end());
  std::vector<int> best;
  double least = kInfinity;
  for (int scale = 1; scale <= most; ++scale) {  // turns of the most frequent
    std::vector<int> counts;
    double error = 0;
    for (const double rate : rates) {
      const double exact = rate / largest * scale;
      counts.push_back(std::max(1, static_cast<int>(std::lround(exact))));
      error = std::max(error, std::abs(counts.back() / exact - 1));
    }
    if (!best.empty() && std::accumulate(counts.begin(), counts.end(), 0) > most) break;
    if (error < least - 1e-6) {
      least = error;
      best = std::move(counts);
    }
  }
  return best;
}

}  // namespace

std::vector<int32_t> SequenceOf(std::span<const double> rates, int most) {
  const std::vector<int> counts = CountsOf(rates, most);
  std::vector<int> given(counts.size(), 0);
  std::vector<int32_t> sequence;
  const int turns = std::accumulate(counts.begin(), counts.end(), 0);
  while (static_cast<int>(sequence.size()) < turns) {
    // The k-th of n turns is due after (k - 1/2) / n of the sequence.
    size_t next = 0;
    double earliest = kInfinity;
    for (size_t j = 0; j < counts.size(); ++j) {
      const double due = (given[j] + 0.5) / counts[j];
      if (given[j] == counts[j] || due >= earliest - 1e-12) continue;
      earliest = due;
      next = j;
    }
    ++given[next];
    sequence.push_back(static_cast<int32_t>(next));
  }
  return sequence;
}

}  // namespace heddle
