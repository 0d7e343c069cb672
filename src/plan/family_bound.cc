#include "plan/family_bound.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "plan/sample_seconds.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Seconds FamilyBound(const Planning& planning, bool divides_ops, int64_t microbatches) {
  const int64_t rows = (planning.request.batch + microbatches - 1) / microbatches;
  const auto seconds =
      LayerSampleSeconds(planning, rows, {&ChainLayer::forward, &ChainLayer::backward});
  const auto& devices = planning.cluster->devices();
  const std::vector<double>& reference = seconds[static_cast<size_t>(devices[0].type)];
  double work = 0;
  for (const double layer : reference) work += layer;
  double speed = 0;
  std::vector<double> speed_of(seconds.size(), -1);
  for (const Device& device : devices) {
    double& type_speed = speed_of[static_cast<size_t>(device.type)];
    if (type_speed < 0) {
      const std::vector<double>& mine = seconds[static_cast<size_t>(device.type)];
      for (size_t l = 0; l < mine.size(); ++l) {
        if (mine[l] > 0) type_speed = std::max(type_speed, reference[l] / mine[l]);
      }
    }
    speed += type_speed;
  }
  const auto batch = static_cast<double>(planning.request.batch);
  const double shared = speed > 0 ? batch * work / speed : 0;
  if (divides_ops) return Seconds{shared};
  // Gradients of weights may wait: they are not on the way.
  const auto way =
      LayerSampleSeconds(planning, rows, {&ChainLayer::forward, &ChainLayer::backward_input});
  double latency = 0;
  for (size_t l = 0; l < reference.size(); ++l) {
    double least = kInfinity;
    for (size_t type = 0; type < way.size(); ++type) {
      if (speed_of[type] >= 0) least = std::min(least, way[type][l]);
    }
    latency += least;
  }
  return Seconds{std::max(shared, latency)};
}

}  // namespace heddle
