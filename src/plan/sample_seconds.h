// What a sample costs at least, by type of device and layer: bounds are made of it.
#pragma once

#include <initializer_list>
#include <vector>

#include "plan/planning.h"

namespace heddle {

// seconds[type][layer], of the given kinds of ops, when a device has at most `rows` samples at a
// time: larger pieces cost less per sample.
std::vector<std::vector<double>> LayerSampleSeconds(
    const Planning& planning, int64_t rows,
    std::initializer_list<std::vector<OpId> ChainLayer::*> parts);

}  // namespace heddle
