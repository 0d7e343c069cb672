#include "run/data/permutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace heddle {
namespace {

constexpr uint64_t kRounds = 8;

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, std::string_view name)
    : stream_(seed, fmt::format("permutation.{}", name)), size_(static_cast<uint64_t>(size)) {
  HEDDLE_CHECK(size >= 1 && size < int64_t{1} << 53);
  // At least two columns: on a single one all functions are constants, which only rotate.
  columns_ =
      std::max(uint64_t{2}, static_cast<uint64_t>(std::ceil(std::sqrt(static_cast<double>(size)))));
  rows_ = (size_ + columns_ - 1) / columns_;
}

uint64_t Permutation::Rounds(uint64_t number) const {
  uint64_t l = number / columns_;
  uint64_t r = number % columns_;
  for (uint64_t round = 0; round < kRounds; ++round) {
    // The functions of two rounds read different counters: both coordinates stay below 2^32.
    const uint64_t tag = round << 32;
    if (round % 2 == 0) {
      l = (l + stream_.Bits(tag | r) % rows_) % rows_;
    } else {
      r = (r + stream_.Bits(tag | l) % columns_) % columns_;
    }
  }
  return l * columns_ + r;
}

int64_t Permutation::At(int64_t index) const {
  HEDDLE_CHECK(index >= 0 && static_cast<uint64_t>(index) < size_);
  uint64_t number = static_cast<uint64_t>(index);
  do {
    number = Rounds(number);
  } while (number >= size_);
  return static_cast<int64_t>(number);
}

int64_t SampleAt(int64_t position, int64_t samples, uint64_t seed) {
  HEDDLE_CHECK(position >= 0);
  const Permutation order(samples, seed, fmt::format("epoch {}", position / samples));
  return order.At(position % samples);
}

}  // namespace heddle
