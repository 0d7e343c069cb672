// LayerProfile: a model of which only measured times and sizes of layers are known, as PipeDream
// and DAPPLE publish them in graph.txt files. A directed acyclic graph of layers.
//
//   HEDDLE_ASSIGN(LayerProfile profile, LoadLayerProfile("vgg16.txt"));
//
// One line for each layer, one for each edge, in any order (# starts no comment; names may hold
// commas, brackets and spaces):
//
//   node5 -- Conv2d(3, 64) -- forward_compute_time=2.69, backward_compute_time=4.47,
//   activation_size=4325376, parameter_size=50384896
//       node4 -- node5
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace heddle {

struct ProfiledLayer {
  std::string id;           // "node5"
  std::string description;  // "Conv2d(3, 64)"
  Seconds forward;          // of one batch of the profiled size, as all that follows
  Seconds backward;
  double activation_bytes = 0;  // of its output
  double parameter_bytes = 0;
};

struct LayerProfile {
  std::vector<ProfiledLayer> layers;          // in the order of the file
  std::vector<std::pair<int, int>> edges;     // indices into layers: from, to
  std::vector<int> TopologicalOrder() const;  // ties go to the earlier in the file
};

// Checks fields, names and that there is no cycle; an error names the line.
Result<LayerProfile> ParseLayerProfile(std::string_view text, const std::string& file);
Result<LayerProfile> LoadLayerProfile(const std::string& path);

}  // namespace heddle
