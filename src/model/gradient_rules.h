// Gradient rules: for each kind of forward op, the backward ops that it needs.
#pragma once

#include "model/gradient_writer.h"

namespace heddle {

// Writes the backward ops of one forward op. Where nothing depends on the op's result there is
// nothing to write, unless the op is where gradients start: a loss, or a profiled layer.
void WriteGradients(GradientWriter& writer, const Op& op);

}  // namespace heddle
