// DType: element types of tensors.
#pragma once

#include <array>
#include <cstdint>

#include "base/choices.h"

namespace heddle {

enum class DType : uint8_t { kF64, kF32, kBf16, kF16, kI64 };

inline constexpr int kDTypeCount = 5;

inline constexpr std::array<int, kDTypeCount> kDTypeBytes = {8, 4, 2, 2, 8};
constexpr int SizeOf(DType type) { return kDTypeBytes[static_cast<size_t>(type)]; }

// Files have the short names; people write fp32.
template <>
struct Choices<DType> {
  static constexpr Choice<DType> kTable[] = {{DType::kF32, "f32", "fp32"},
                                             {DType::kBf16, "bf16"},
                                             {DType::kF16, "f16", "fp16"},
                                             {DType::kF64, "f64", "fp64"},
                                             {DType::kI64, "i64", "", /*offered=*/false}};
};

}  // namespace heddle
