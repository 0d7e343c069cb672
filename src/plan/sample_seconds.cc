#include "plan/sample_seconds.h"

#include <algorithm>
#include <limits>

namespace heddle {
namespace {

// Least seconds per sample of an op, over the sizes a device can be given.
double SampleSeconds(const Planning& planning, const Op& op, const DeviceTypeSpec& type,
                     int64_t most) {
  const OpCost cost = planning.cost();
  double least = std::numeric_limits<double>::infinity();
  for (int64_t rows = most; rows >= 1; rows /= 2) {
    const double seconds = cost.RowsSeconds(op, rows, type).value;
    least = std::min(least, seconds / static_cast<double>(rows));
    if (planning.profile == nullptr) break;  // a roofline is cheapest per sample at its largest
  }
  return least;
}

}  // namespace

std::vector<std::vector<double>> LayerSampleSeconds(
    const Planning& planning, int64_t rows,
    std::initializer_list<std::vector<OpId> ChainLayer::*> parts) {
  std::vector<std::vector<double>> seconds;
  for (const DeviceTypeSpec& type : planning.cluster->types()) {
    std::vector<double> layers;
    for (const ChainLayer& layer : planning.chain.layers) {
      double sum = 0;
      for (const auto ops : parts) {
        for (const OpId id : layer.*ops)
          sum += SampleSeconds(planning, planning.graph.op(id), type, rows);
      }
      layers.push_back(sum);
    }
    seconds.push_back(std::move(layers));
  }
  return seconds;
}

}  // namespace heddle
