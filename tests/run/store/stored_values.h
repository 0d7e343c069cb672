// Tensors to store, with their bytes.
#pragma once

#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "run/store/safetensors.h"

namespace heddle {

class StoredValues {
 public:
  template <class T>
  StoredValues& Add(const std::string& name, DType dtype, std::vector<int64_t> shape,
                    const std::vector<T>& values) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    bytes_.emplace_back(bytes.begin(), bytes.end());
    tensors_.push_back({name, dtype, std::move(shape), bytes_.back()});
    return *this;
  }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

 private:
  std::deque<std::vector<std::byte>> bytes_;  // which keeps its elements in place
  std::vector<StoredTensor> tensors_;
};

template <class T>
std::vector<T> ValuesOf(const StoredTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

template <class T>
std::string ErrorOf(const Result<T>& result) {
  return result.ok() ? "" : result.error().ToString();
}

}  // namespace heddle
