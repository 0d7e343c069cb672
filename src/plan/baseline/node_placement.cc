#include "plan/baseline/node_placement.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <set>

#include "base/check.h"

namespace heddle {
namespace {

// Fills the nodes for which `fresh` holds, in order.
std::optional<NodeCounts> Fill(const NodeCounts& size, const NodeCounts& used, int need,
                               bool fresh) {
  NodeCounts taken(size.size(), 0);
  for (size_t n = 0; n < size.size(); ++n) {
    if ((used[n] == 0) != fresh) continue;
    taken[n] = std::min(need, size[n] - used[n]);
    need -= taken[n];
  }
  if (need > 0) return std::nullopt;
  return taken;
}

NodeCounts Scatter(const NodeCounts& size, const NodeCounts& used, int need) {
  NodeCounts taken(size.size(), 0);
  for (size_t n = 0; need > 0; n = (n + 1) % size.size()) {
    if (used[n] + taken[n] == size[n]) continue;
    ++taken[n];
    --need;
  }
  return taken;
}

}  // namespace

int Sum(const NodeCounts& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

NodeCounts Plus(const NodeCounts& a, const NodeCounts& b) {
  NodeCounts sum = a;
  for (size_t n = 0; n < sum.size(); ++n) sum[n] += b[n];
  return sum;
}

bool OnOneNode(const NodeCounts& counts) {
  return std::count_if(counts.begin(), counts.end(), [](int c) { return c > 0; }) == 1;
}

std::vector<NodeCounts> PlaceNext(const NodeCounts& size, const NodeCounts& used, int need) {
  HEDDLE_CHECK(need >= 1 && Sum(size) - Sum(used) >= need);
  std::vector<NodeCounts> ways;
  for (const auto& way : {Fill(size, used, need, true), Fill(size, used, need, false),
                          std::optional(Scatter(size, used, need))}) {
    if (way && std::find(ways.begin(), ways.end(), *way) == ways.end()) ways.push_back(*way);
  }
  return ways;
}

std::vector<NodeCounts> PlaceOneByOne(const NodeCounts& size, const NodeCounts& used, int need) {
  std::set<NodeCounts> ways = {NodeCounts(size.size(), 0)};
  for (int k = 0; k < need; ++k) {
    std::set<NodeCounts> longer;
    for (const NodeCounts& way : ways) {
      for (const NodeCounts& more : PlaceNext(size, Plus(used, way), 1)) {
        longer.insert(Plus(way, more));
      }
    }
    ways = std::move(longer);
  }
  return {ways.begin(), ways.end()};
}

}  // namespace heddle
