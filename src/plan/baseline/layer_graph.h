// LayerGraph: the layers of a profile that matter for cutting, with their sets as bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/layer_profile.h"

namespace heddle {

// A set of layers.
class LayerSet {
 public:
  explicit LayerSet(size_t layers) : words_((layers + 63) / 64, 0) {}

  void Add(size_t layer) { words_[layer / 64] |= uint64_t{1} << (layer % 64); }
  void Add(const LayerSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }
  bool Has(size_t layer) const { return (words_[layer / 64] >> (layer % 64) & 1) != 0; }
  bool Within(const LayerSet& other) const;
  int size() const;

  bool operator==(const LayerSet&) const = default;
  auto operator<=>(const LayerSet&) const = default;
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(words_.data()), words_.size() * sizeof(uint64_t)};
  }

 private:
  std::vector<uint64_t> words_;
};

struct LayerGraph {
  struct Layer {
    double seconds = 0;
    double parameter_bytes = 0;
    double activation_bytes = 0;
    std::vector<size_t> before;  // layers whose output it reads
    std::vector<size_t> after;
  };
  std::vector<Layer> layers;  // in topological order

  // Without sources named "Input…" and sinks named "__getitem__…".
  static LayerGraph Of(const LayerProfile& profile);

  // Every run of layers in which each has one reader and each reader one input becomes one layer.
  LayerGraph WithoutChains() const;

  // Of each layer: itself and all it depends on.
  std::vector<LayerSet> Closures() const;
};

// The closed sets that hold the first source and are reached from it by adding one reader after
// the other with all it depends on; smaller ones first. Empty when there are more than `limit`.
std::vector<LayerSet> ClosedSets(const LayerGraph& graph, size_t limit);

}  // namespace heddle
