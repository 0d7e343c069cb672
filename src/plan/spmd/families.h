// Families: what earlier systems can do with a model, as restrictions of the search.
//
//   data      samples divided everywhere, weights stored whole
//   zero      the same, large weights with gradients and optimizer state stored in parts
//             (Rajbhandari et al. 2020); on two axes the parts lie inside the rows of the mesh
//   tensor    samples divided between the rows; inside a row anything but samples, as heads,
//             columns and rows of weights (Shoeybi et al. 2019)
//   expert    experts divided along axis 1, everything else by samples (Lepikhin et al. 2020)
//
//   const Restriction zero = RestrictionTo(problem, SpmdFamily::kZero);
//   SearchFolded(problem, {.restriction = &zero});
#pragma once

#include <string_view>
#include <vector>

#include "plan/spmd/frontier.h"

namespace heddle {

enum class SpmdFamily : uint8_t { kData, kZero, kTensor, kExpert };
inline constexpr int kSpmdFamilies = 4;

std::string_view NameOf(SpmdFamily family);

// The experts of the model: 0: it has none.
int64_t ExpertsOf(const Graph& graph);

// The meshes that the family can use, with even ratios. Empty: it has no place here, as tensor
// parallelism where no two devices share a node.
std::vector<SpmdMesh> MeshesFor(SpmdFamily family, const Graph& graph, const Cluster& cluster);

Restriction RestrictionTo(const SpmdProblem& problem, SpmdFamily family);

}  // namespace heddle
