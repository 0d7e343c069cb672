// Philox: random numbers by counter (Salmon et al. 2011, Philox4x32-10), so that a value depends
// only on what it is for, never on who computes it or in which order.
//
//   RandomStream weights(seed, "block0.fc1.w");
//   double w = weights.Normal(element);
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace heddle {

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class RandomStream {
 public:
  RandomStream(uint64_t seed, std::string_view name);

  uint64_t Bits(uint64_t index) const;
  double Uniform(uint64_t index) const;  // in (0, 1)
  double Normal(uint64_t index) const;   // Box-Muller
  // Four normal numbers in single precision, for less than the price of one, from the bits that
  // Normal(block) would use: bulk data in a stream of its own. None is larger than 6.8.
  std::array<double, 4> Normals(uint64_t block) const;
  uint64_t Below(uint64_t index, uint64_t bound) const;
  // The four words of block `index`: for those who need many.
  std::array<uint32_t, 4> Words(uint64_t index) const { return At(index); }

 private:
  std::array<uint32_t, 4> At(uint64_t index) const;
  std::array<uint32_t, 2> key_;
  uint64_t name_;
};

}  // namespace heddle
