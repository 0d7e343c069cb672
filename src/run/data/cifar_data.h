// CIFAR data: 32 x 32 colour images in the binary layout they are published in
// (https://www.cs.toronto.edu/~kriz/cifar.html).
//
//   CIFAR-10    label, 1024 red, 1024 green, 1024 blue              3073 bytes a record
//   CIFAR-100   coarse label, fine label, 3 * 1024 as above         3074 bytes; the fine label is
//   used
//
// A colour v of 0 … 255 becomes (v / 255 - 0.5) / 0.25, between -2 and 2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/graph.h"
#include "run/data/data_source.h"

namespace heddle {

struct CifarLayout {
  std::string_view name;
  int label_bytes;  // the last of them is used
  int classes;
};
inline constexpr CifarLayout kCifar10 = {"CIFAR-10", 1, 10};
inline constexpr CifarLayout kCifar100 = {"CIFAR-100", 2, 100};

struct CifarRecords {
  std::vector<int32_t> labels;
  std::string images;  // 3072 bytes each
};

// Appends the records of one file.
Status AddCifarRecords(std::string_view bytes, const CifarLayout& layout, const std::string& where,
                       CifarRecords& records);

// REQUIRES: at least one record.
Result<std::unique_ptr<DataSource>> MakeCifarData(CifarRecords records, const CifarLayout& layout,
                                                  const std::string& spec, const Graph& graph,
                                                  const DataOptions& options);

}  // namespace heddle
