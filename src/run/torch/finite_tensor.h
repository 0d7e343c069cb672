// Whether a tensor holds numbers only.
#pragma once

#include <ATen/core/Tensor.h>

namespace heddle {

// Every element; true for integers.
bool AllFinite(const at::Tensor& tensor);

}  // namespace heddle
