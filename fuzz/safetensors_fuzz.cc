// Safetensors files: whatever is read is written back and read again as the same.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "run/store/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  const auto file = heddle::SafetensorsFile::Parse(std::move(text), "fuzz");
  if (!file.ok()) return 0;
  const auto written =
      heddle::SafetensorsText(file.value().tensors(), file.value().metadata(), "written");
  HEDDLE_CHECK(written.ok());
  const auto again = heddle::SafetensorsFile::Parse(written.value(), "written");
  HEDDLE_CHECK(again.ok());
  HEDDLE_CHECK(again.value().metadata() == file.value().metadata());
  HEDDLE_CHECK(again.value().tensors().size() == file.value().tensors().size());
  for (const heddle::StoredTensor& tensor : file.value().tensors()) {
    const heddle::StoredTensor* same = again.value().Find(tensor.name);
    HEDDLE_CHECK(same != nullptr && same->dtype == tensor.dtype && same->shape == tensor.shape);
    HEDDLE_CHECK(std::ranges::equal(same->bytes, tensor.bytes));  // reads every byte
  }
  return 0;
}
