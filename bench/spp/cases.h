// The grid of the comparison: models x numbers of devices x topologies x numbers of microbatches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct SppModel {
  std::string name;
  std::string spec;
  int64_t profile_batch;  // 0: of the zoo
  int64_t rows;           // samples of a microbatch
};

struct SppCase {
  SppModel model;
  int devices;
  std::string topology;
  int64_t microbatches;

  std::string Name() const;  // "vgg16 | 4 | flat | 8"
};

// All cases, or with `quick` a sixth of them. Profiles are read from ../shared/data/profiles and
// left out where they are not.
std::vector<SppCase> SppCases(bool quick);

// flat: one device per node, 25 Gbit/s; two-level: nodes of four; irregular: nodes of unequal size
// and uplinks; mixed: half of the nodes have slower devices.
std::string ClusterText(const std::string& topology, int devices);

}  // namespace heddle
