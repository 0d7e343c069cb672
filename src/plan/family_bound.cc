#include "plan/family_bound.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <vector>

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Least seconds per sample of an op, over the sizes a device can be given.
double SampleSeconds(const Planning& planning, const Op& op, const DeviceTypeSpec& type) {
  const OpCost cost = planning.cost();
  double least = kInfinity;
  for (int64_t rows = planning.options.batch; rows >= 1; rows /= 2) {
    const double seconds = cost.RowsSeconds(op, rows, type).value;
    least = std::min(least, seconds / static_cast<double>(rows));
    if (planning.profile == nullptr) break;  // a roofline is cheapest per sample at its largest
  }
  return least;
}

// By device type and layer, of the given kinds of ops.
using OpList = std::vector<OpId> ChainLayer::*;
std::vector<std::vector<double>> LayerSampleSeconds(const Planning& planning,
                                                    std::initializer_list<OpList> parts) {
  std::vector<std::vector<double>> seconds;
  for (const DeviceTypeSpec& type : planning.cluster->types()) {
    std::vector<double> layers;
    for (const ChainLayer& layer : planning.chain.layers) {
      double sum = 0;
      for (const OpList ops : parts) {
        for (const OpId id : layer.*ops)
          sum += SampleSeconds(planning, planning.graph.op(id), type);
      }
      layers.push_back(sum);
    }
    seconds.push_back(std::move(layers));
  }
  return seconds;
}

}  // namespace

Seconds FamilyBound(const Planning& planning, bool divides_ops) {
  const auto seconds = LayerSampleSeconds(planning, {&ChainLayer::forward, &ChainLayer::backward});
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
  const auto batch = static_cast<double>(planning.options.batch);
  const double shared = speed > 0 ? batch * work / speed : 0;
  if (divides_ops) return Seconds{shared};
  // Gradients of weights may wait: they are not on the way.
  const auto way =
      LayerSampleSeconds(planning, {&ChainLayer::forward, &ChainLayer::backward_input});
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
