// Safetensors: tensors by name in one file, the format of huggingface/safetensors.
//
//   8 bytes                  size of the header, little-endian
//   header                   JSON, spaces at its end so that the data begins at a multiple of 8:
//                            {"__metadata__": {"key": "text"},
//                             "fc0.w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
//   data                     of each tensor, row-major, little-endian; offsets count from here
//
//   HEDDLE_RETURN_IF_ERROR(WriteSafetensors("weights.safetensors", tensors, {{"step", "100"}}));
//   HEDDLE_ASSIGN(SafetensorsFile file, SafetensorsFile::Open("weights.safetensors"));
//   const StoredTensor* weight = file.Find("fc0.w");
//
// A file that was opened has been checked: its tensors have distinct names and a type of ours, each
// has the bytes its shape asks for, and together they cover the data without overlap or hole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace heddle {

struct StoredTensor {
  std::string name;  // any UTF-8 but "__metadata__"
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;        // empty for a scalar
  std::span<const std::byte> bytes;  // not owned, of any alignment
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct WrittenSafetensors {
  int64_t bytes = 0;
  std::string hash;  // HashOf the whole file
};

// Whole or not at all (base/atomic_file.h). Wider types are stored first, so that every tensor is
// aligned in the file; within one type the order is the caller's.
Result<WrittenSafetensors> WriteSafetensors(const std::string& path,
                                            std::span<const StoredTensor> tensors,
                                            const SafetensorsMetadata& metadata);

// The same file as text in memory; `file` is for errors.
Result<std::string> SafetensorsText(std::span<const StoredTensor> tensors,
                                    const SafetensorsMetadata& metadata, const std::string& file);

// A checked file. Its tensors point into it and live as long as it or a copy of it does.
class SafetensorsFile {
 public:
  // Maps the file. Replacing or removing it meanwhile does no harm; shortening it in place does,
  // which nothing in heddle ever does.
  static Result<SafetensorsFile> Open(const std::string& path);
  static Result<SafetensorsFile> Parse(std::string contents, const std::string& file);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // as they lie in the file
  const StoredTensor* Find(std::string_view name) const;                 // nullptr if there is none
  const SafetensorsMetadata& metadata() const { return metadata_; }
  std::string_view contents() const { return contents_; }  // the whole file

 private:
  static Result<SafetensorsFile> Check(std::shared_ptr<const void> owner, std::string_view contents,
                                       const std::string& file);

  std::shared_ptr<const void> owner_;
  std::string_view contents_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, size_t> index_;
  SafetensorsMetadata metadata_;
};

}  // namespace heddle
