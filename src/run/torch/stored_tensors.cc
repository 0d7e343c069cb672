#include "run/torch/stored_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"

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

TensorsByName FromStored(const SafetensorsFile& file, DType dtype) {
  TensorsByName tensors;
  for (const StoredTensor& stored : file.tensors()) {
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

std::string HashOf(const TensorsByName& tensors) {
  Hash hash;
  for (const auto& [name, tensor] : tensors) {
    hash.Add(name);
    for (const int64_t extent : tensor.sizes()) hash.Add(extent);
    const std::span<const std::byte> bytes = BytesOf(tensor);
    hash.Add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  return hash.Hex();
}

uint64_t QuickHashOf(const TensorsByName& tensors) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15ULL;  // odd: every word counts
  constexpr int kShift = 29;
  uint64_t hash = 0;
  for (const auto& item : tensors) {
    const std::span<const std::byte> bytes = BytesOf(item.second);
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
      hash = (hash ^ word) * kFactor;
      hash ^= hash >> kShift;
    }
  }
  return hash;
}

}  // namespace heddle
