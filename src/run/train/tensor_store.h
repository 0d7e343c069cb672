// TensorStore: the tensors that one device holds between two steps, as bytes with names.
//
//   const HeldTensors weights = store.Held(Role::kParameter);
//   HashOf(weights.tensors)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/graph.h"
#include "run/store/safetensors.h"

namespace heddle {

struct HeldTensors {
  std::vector<StoredTensor> tensors;                // in the order of their names
  std::vector<std::shared_ptr<const void>> owners;  // of their bytes
};

class TensorStore {
 public:
  virtual ~TensorStore() = default;

  // Those of a role, by their names in the graph, whole or the part that is held here. Their bytes
  // are the device's own: the next step changes them.
  virtual HeldTensors Held(Role role) const = 0;
  // The parameters that this device updates, every replica and version of them.
  virtual HeldTensors Updated() const = 0;
};

// Names, shapes and bits.
std::string HashOf(std::span<const StoredTensor> tensors);

// Bits alone, eight bytes at a time: cheap enough for every step.
uint64_t QuickHashOf(std::span<const StoredTensor> tensors);

// Every element is a number; true for integers.
bool AllFinite(const StoredTensor& tensor);

}  // namespace heddle
