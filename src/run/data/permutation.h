// Permutation: a seeded order of 0 … size-1, computed element by element without a table.
//
//   const Permutation order(samples, seed, "epoch 3");
//   order.At(0)                         the first sample of epoch 3
//   SampleAt(position, samples, seed)   the same over epochs: each visits every sample once
//
// Numbers are written as pairs (l, r) on the smallest near-square grid that holds them; rounds add
// to l a random function of r and the other way round, which is a bijection of the grid whatever
// the functions are (a generalised Feistel network; Black and Rogaway 2002, "Ciphers with Arbitrary
// Finite Domains"). A result outside 0 … size-1 is put in again until it is inside (cycle
// walking), less than twice on average.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/philox.h"

namespace heddle {

class Permutation {
 public:
  // REQUIRES: 1 <= size < 2^53. Permutations of other seeds and names are independent.
  Permutation(int64_t size, uint64_t seed, std::string_view name);

  // REQUIRES: 0 <= index < size.
  int64_t At(int64_t index) const;

 private:
  uint64_t Rounds(uint64_t number) const;

  RandomStream stream_;
  uint64_t size_;
  uint64_t rows_;     // extent of l
  uint64_t columns_;  // extent of r
};

// The sample at a position of the endless stream of epochs. Depends on nothing but its arguments.
int64_t SampleAt(int64_t position, int64_t samples, uint64_t seed);

}  // namespace heddle
