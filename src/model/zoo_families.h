// The families of the zoo: each writes a forward pass, from inputs to loss.
#pragma once

#include "base/result.h"
#include "model/zoo.h"

namespace heddle {

// layers, inputs, hidden, outputs
Status WriteMlp(GraphBuilder& builder, const ModelParameters& parameters);

// layers, hidden, heads, vocab, seq, tied
Status WriteGpt(GraphBuilder& builder, const ModelParameters& parameters);

}  // namespace heddle
