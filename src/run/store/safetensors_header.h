// The JSON header of a safetensors file, before anything is known of the data behind it.
//
//   HEDDLE_ASSIGN(SafetensorsHeader header, ParseSafetensorsHeader(json, "weights.safetensors"));
//   header.entries[0].begin
//
// Read in one pass without a tree in between: names given twice are noticed, and a hostile header
// costs no more than its length. What is inside is checked (types, shapes, sizes); where the
// tensors lie is not.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace heddle {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // in the data
  int64_t end = 0;    // begin + the bytes of shape and dtype
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // as they stand in the header
  std::map<std::string, std::string> metadata;
};

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, const std::string& file);

// The header as JSON, without padding. An error if a text in it is not UTF-8.
Result<std::string> PrintSafetensorsHeader(const SafetensorsHeader& header,
                                           const std::string& file);

// Bytes of a tensor; an error if an extent is negative or the product does not fit.
Result<int64_t> StoredBytes(const std::vector<int64_t>& shape, DType dtype,
                            const std::string& where);

// "file: tensor \"name\"": the name escaped, and cut where it is very long.
std::string TensorPlace(const std::string& file, std::string_view name);

}  // namespace heddle
