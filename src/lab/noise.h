// Noise: one long sequence of standard normal numbers for each seed, made once and shared by all
// methods and step sizes. Microbatch m adds σ times the d numbers from m · d to its gradient, so
// every method sees the same microbatches.
//
//   const Noise noise(seed, microbatches * dimension);
//   noise.At(m * dimension)[k]
#pragma once

#include <cstdint>
#include <vector>

namespace heddle {

class Noise {
 public:
  Noise() = default;  // none: for σ = 0
  // The first `count` numbers of the seed's sequence.
  Noise(uint64_t seed, int64_t count);

  const float* At(int64_t index) const { return numbers_.data() + index; }
  int64_t size() const { return static_cast<int64_t>(numbers_.size()); }

 private:
  std::vector<float> numbers_;
};

}  // namespace heddle
