// The families of the zoo: each writes a forward pass, from inputs to loss. `dropout` is in
// percent.
#pragma once

#include "base/result.h"
#include "model/zoo.h"

namespace heddle {

// layers, inputs, hidden, outputs, dropout
Status WriteMlp(GraphBuilder& builder, const ModelParameters& parameters);

// layers, hidden, heads, vocab, seq, tied, dropout
Status WriteGpt(GraphBuilder& builder, const ModelParameters& parameters);

// layers, hidden, heads, vocab, seq, classes, dropout; experts, every, capacity (percent): every
// n-th block has experts instead of a feed-forward layer (0 experts: none)
Status WriteBert(GraphBuilder& builder, const ModelParameters& parameters);

// layers (of encoder and of decoder), hidden, wide, heads, vocab, seq, dropout
Status WriteTransformer(GraphBuilder& builder, const ModelParameters& parameters);

// image, classes, width, hidden, dropout
Status WriteVgg19(GraphBuilder& builder, const ModelParameters& parameters);

// image, classes, width, blocks1 … blocks4
Status WriteResnet(GraphBuilder& builder, const ModelParameters& parameters);

// image, classes, width, dropout
Status WriteInception(GraphBuilder& builder, const ModelParameters& parameters);

// layers (on each side), image, classes, width, channels (of the map that the bridge connects)
Status WriteBridge(GraphBuilder& builder, const ModelParameters& parameters);

// layers, hidden, heads, image, patch, classes, dropout
Status WriteVit(GraphBuilder& builder, const ModelParameters& parameters);

}  // namespace heddle
