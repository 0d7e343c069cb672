// Tensors to and from bytes (store/safetensors.h).
#pragma once

#include <span>
#include <vector>

#include "run/store/safetensors.h"
#include "run/torch/torch_executor.h"

namespace heddle {

// Views of the tensors' memory, which must be contiguous and outlive them.
std::vector<StoredTensor> ToStored(const TensorsByName& tensors);

// Copies, converted to `dtype`.
TensorsByName FromStored(std::span<const StoredTensor> stored, DType dtype);

}  // namespace heddle
