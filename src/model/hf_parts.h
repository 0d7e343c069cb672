// HfPart: what a Hugging Face model is made of, op by op, with the parameters of each, and whether
// heddle has that op.
//
//   for (const HfPart& part : PartsOf(config)) parameters += part.count * part.parameters;
//   for (const HfPart& part : PartsOf(config)) if (part.missing) …   // heddle cannot build the
//   model
//
// Invariant: the sum of all parameters is what `transformers` counts for the same file, each tensor
// once.
#pragma once

#include <string>
#include <vector>

#include "model/hf_config.h"

namespace heddle {

struct HfPart {
  std::string op;          // "linear", "rms_norm"
  std::string where;       // "model.layers.*.mlp.gate_proj", as `transformers` names it
  int64_t count = 1;       // of them
  int64_t parameters = 0;  // of each
  bool missing = false;    // heddle has no such op
};

std::vector<HfPart> PartsOf(const HfConfig& config);

// An error where they are more than a graph could hold. `file` names the source.
Result<int64_t> ParametersOf(const std::vector<HfPart>& parts, const std::string& file);

}  // namespace heddle
