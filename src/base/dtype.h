// DType: element types of tensors.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace heddle {

enum class DType : uint8_t { kF64, kF32, kBf16, kF16, kI64 };

inline constexpr int kDTypeCount = 5;

struct DTypeInfo {
  std::string_view name;
  int bytes;
};

inline constexpr std::array<DTypeInfo, kDTypeCount> kDTypes = {{
    {"f64", 8},
    {"f32", 4},
    {"bf16", 2},
    {"f16", 2},
    {"i64", 8},
}};

constexpr int SizeOf(DType type) { return kDTypes[static_cast<size_t>(type)].bytes; }
constexpr std::string_view NameOf(DType type) { return kDTypes[static_cast<size_t>(type)].name; }

// Accepts the short names and the spellings of the command line: fp64, fp32, fp16.
constexpr std::optional<DType> ParseDType(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kDTypes[static_cast<size_t>(i)].name == name) return static_cast<DType>(i);
  }
  if (name == "fp64") return DType::kF64;
  if (name == "fp32") return DType::kF32;
  if (name == "fp16") return DType::kF16;
  return std::nullopt;
}

}  // namespace heddle
