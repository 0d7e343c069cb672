// Models of Hugging Face configurations: a config.json in, the forward pass out.
//
//   BuildModel("opt-125m/config.json?seq=512", {.batch = 8})     // zoo.h; keys: seq, dropout
//
// The graph is the model of the file's `architectures`, in training: a family is built whole, or
// refused with the ops that heddle lacks for it. docs/models.md says what is as in `transformers`
// and what is not.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/graph_builder.h"
#include "model/hf_parts.h"
#include "model/model_spec.h"

namespace heddle {

// Whether the spec names a configuration: a path that ends in .json, before its keys.
bool IsConfigSpec(std::string_view spec);

// The configuration of a spec after its keys, and what it is made of.
struct HfModel {
  HfConfig config;
  std::vector<HfPart> parts;
  int64_t parameters = 0;  // as `transformers` counts them
  int64_t sequence = 0;    // positions of a sample; 0: images
};
Result<HfModel> ReadHfModel(const ModelSpec& spec);

// An error that names every op which heddle lacks, how often and where; nothing if there is none.
Status CheckKnownOps(const HfModel& model, const std::string& file);

Status WriteHfModel(GraphBuilder& builder, const HfModel& model);

}  // namespace heddle
