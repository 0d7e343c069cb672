#include "run/train/tensor_store.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace heddle {
namespace {

// What is no number has all bits of its exponent set.
template <class Word>
bool WordsAreFinite(std::span<const std::byte> bytes, Word exponent) {
  for (size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if ((word & exponent) == exponent) return false;
  }
  return true;
}

}  // namespace

std::string HashOf(std::span<const StoredTensor> tensors) {
  Hash hash;
  for (const StoredTensor& tensor : tensors) {
    hash.Add(tensor.name);
    for (const int64_t extent : tensor.shape) hash.Add(extent);
    hash.Add(
        std::string_view(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()));
  }
  return hash.Hex();
}

uint64_t QuickHashOf(std::span<const StoredTensor> tensors) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15ULL;  // odd: every word counts
  constexpr int kShift = 29;
  uint64_t hash = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::span<const std::byte> bytes = tensor.bytes;
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
      hash = (hash ^ word) * kFactor;
      hash ^= hash >> kShift;
    }
  }
  return hash;
}

bool AllFinite(const StoredTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kF64:
      return WordsAreFinite<uint64_t>(tensor.bytes, 0x7ff0000000000000ULL);
    case DType::kF32:
      return WordsAreFinite<uint32_t>(tensor.bytes, 0x7f800000U);
    case DType::kBf16:
      return WordsAreFinite<uint16_t>(tensor.bytes, 0x7f80U);
    case DType::kF16:
      return WordsAreFinite<uint16_t>(tensor.bytes, 0x7c00U);
    case DType::kI64:
      break;
  }
  return true;
}

}  // namespace heddle
