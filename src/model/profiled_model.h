// ProfiledModel: a layer profile as a training graph, of opaque ops.
//
//   HEDDLE_ASSIGN(LayerProfile profile, LoadLayerProfile("vgg16.txt"));
//   HEDDLE_ASSIGN(Graph graph, BuildProfiledModel(profile, {.batch = 256, .profile_batch = 64}));
//
// Layer k of the graph is the k-th of the profile's topological order. Edges carry the whole output
// of a layer; a layer without inputs reads the model's input `x`; a layer that nobody reads ends in
// the loss, as if its output were one.
//
// Sizes are rounded to elements of the graph's dtype, one at least for each output. Sources whose
// description starts with "Input" stand for the reading of data, which goes on beside training:
// they cost nothing, as in PipeDream. What depends on no weights and has no backward time
// gets no gradient (graph.txt files have masks that every layer reads).
#pragma once

#include "model/graph.h"
#include "model/layer_profile.h"
#include "model/zoo.h"

namespace heddle {

// REQUIRES: options.profile_batch >= 1.
Result<Graph> BuildProfiledModel(const LayerProfile& profile, const ModelOptions& options);

// The same of a file. Its path must be one that a plan can hold.
Result<Graph> LoadProfiledModel(const std::string& path, const ModelOptions& options);

}  // namespace heddle
