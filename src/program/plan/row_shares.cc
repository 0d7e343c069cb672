#include "program/plan/row_shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace heddle {

std::vector<int64_t> MicrobatchRows(int64_t batch, int64_t microbatches) {
  std::vector<int64_t> rows;
  for (int64_t m = 0; m < microbatches; ++m) {
    rows.push_back((m + 1) * batch / microbatches - m * batch / microbatches);
  }
  return rows;
}

std::vector<Range> DivideRows(int64_t rows, const std::vector<double>& shares) {
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  HEDDLE_CHECK(total > 0);
  std::vector<int64_t> counts;
  std::vector<double> remainders;
  int64_t given = 0;
  for (const double share : shares) {
    const double exact = static_cast<double>(rows) * share / total;
    counts.push_back(static_cast<int64_t>(std::floor(exact + 1e-9)));
    remainders.push_back(exact - static_cast<double>(counts.back()));
    given += counts.back();
  }
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return remainders[a] > remainders[b] + 1e-12; });
  for (size_t k = 0; given < rows; ++k, ++given) ++counts[order[k % order.size()]];
  std::vector<Range> ranges;
  int64_t at = 0;
  for (const int64_t count : counts) {
    ranges.push_back({at, at + count});
    at += count;
  }
  return ranges;
}

}  // namespace heddle
