// Zoo: models built from their published dimensions.
//
//   HEDDLE_ASSIGN(Graph graph, BuildModel("gpt?layers=24&hidden=1024", {.batch = 32}));
//
// A zoo entry is a family (a function that writes the forward pass) and the family's parameters
// with their defaults; `name?key=value` overrides them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/graph.h"

namespace heddle {

class GraphBuilder;

struct ModelOptions {
  int64_t batch = 1;
  DType dtype = DType::kF32;
  Optimizer optimizer = Optimizer::kAdam;
  double clip = 0;  // largest norm of all gradients together; 0: none
  // Of a layer profile only (profiled_model.h).
  int64_t profile_batch = 0;   // samples that it was measured with
  FlopRate profile_rate = {};  // of the device it was measured on; 0: times hold on every device
};

using ModelParameters = std::map<std::string, int64_t>;

struct ZooEntry {
  std::string name;
  std::string about;
  Status (*write_forward)(GraphBuilder& builder, const ModelParameters& parameters);
  ModelParameters defaults;
  ModelParameters small = {};  // sizes for a copy that computes in no time, with the same layers
};

const std::vector<ZooEntry>& Zoo();

// The same model with small sizes: as many layers, connected alike. What holds of its arithmetic
// under a plan holds of the large one's.
Result<std::string> ScaledDown(std::string_view spec);

// Whether the spec names a file with a layer profile: it ends in .txt, or has a slash.
bool IsProfileSpec(std::string_view spec);

// The whole training graph, of a zoo model or a layer profile. Unknown names and keys are refused
// with the nearest known one.
Result<Graph> BuildModel(std::string_view spec, const ModelOptions& options);

}  // namespace heddle
