// Tensors to and from files (store/safetensors.h), and their hash.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "run/store/safetensors.h"
#include "run/torch/torch_executor.h"

namespace heddle {

// Views of the tensors' memory, which must be contiguous and outlive them.
std::vector<StoredTensor> ToStored(const TensorsByName& tensors);

// Copies, converted to `dtype`.
TensorsByName FromStored(const SafetensorsFile& file, DType dtype);

// Names, shapes and bits.
std::string HashOf(const TensorsByName& tensors);

// Bits alone, eight bytes at a time: cheap enough for every step.
uint64_t QuickHashOf(const TensorsByName& tensors);

}  // namespace heddle
