#include "program/lower/gradient_buckets.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace heddle {

std::vector<GradientBucket> MakeBuckets(const Graph& graph,
                                        const std::vector<std::vector<int32_t>>& holders,
                                        Bytes least) {
  std::vector<int32_t> order(graph.parameters().size());
  std::iota(order.begin(), order.end(), 0);
  const auto lowest = [&](int32_t p) {
    return graph.parameters()[static_cast<size_t>(p)].layers.front().value;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return lowest(a) > lowest(b); });
  std::vector<GradientBucket> buckets;
  struct Open {
    int32_t group_id;
    size_t bucket;
    Bytes bytes;
  };
  std::map<std::vector<int32_t>, Open> open;
  for (const int32_t p : order) {
    const std::vector<int32_t>& group = holders[static_cast<size_t>(p)];
    const auto [found, is_new] =
        open.try_emplace(group, Open{static_cast<int32_t>(open.size()), 0, {}});
    Open& current = found->second;
    // A layer is not torn apart: its parameters' gradients appear together.
    const bool full =
        !is_new && current.bytes >= least && buckets[current.bucket].lowest_layer != lowest(p);
    if (is_new || full) {
      current.bucket = buckets.size();
      current.bytes = Bytes{};
      buckets.push_back({group, {}, lowest(p), current.group_id});
    }
    buckets[current.bucket].parameters.push_back(p);
    buckets[current.bucket].lowest_layer = lowest(p);
    current.bytes += graph.tensor(graph.parameters()[static_cast<size_t>(p)].gradient).bytes();
  }
  return buckets;
}

}  // namespace heddle
