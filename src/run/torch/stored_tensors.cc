#include "run/torch/stored_tensors.h"

#include <ATen/ATen.h>

#include <cstring>

#include "base/check.h"

namespace heddle {
namespace {

DType DTypeOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return DType::kF64;
    case at::kLong:
      return DType::kI64;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBf16;
    default:
      return DType::kF32;
  }
}

at::ScalarType StoredScalar(DType dtype) {
  if (dtype == DType::kF16) return at::kHalf;
  return dtype == DType::kBf16 ? at::kBFloat16 : ScalarOf(dtype);
}

std::span<const std::byte> BytesOf(const at::Tensor& tensor) {
  HEDDLE_CHECK(tensor.is_contiguous());
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace

std::vector<StoredTensor> ToStored(const TensorsByName& tensors) {
  std::vector<StoredTensor> stored;
  for (const auto& [name, tensor] : tensors) {
    stored.push_back({name, DTypeOf(tensor), tensor.sizes().vec(), BytesOf(tensor)});
  }
  return stored;
}

TensorsByName FromStored(std::span<const StoredTensor> all, DType dtype) {
  TensorsByName tensors;
  for (const StoredTensor& stored : all) {
    const at::Tensor copy =
        at::empty(stored.shape, at::TensorOptions().dtype(StoredScalar(stored.dtype)));
    // The file's bytes need not be aligned.
    if (!stored.bytes.empty()) {
      std::memcpy(copy.data_ptr(), stored.bytes.data(), stored.bytes.size());
    }
    tensors[stored.name] = copy.to(ScalarOf(dtype));
  }
  return tensors;
}

}  // namespace heddle
