#include "base/philox.h"

#include <cmath>
#include <numbers>

#include "base/hash.h"

namespace heddle {

// The constants are those of the paper.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

RandomStream::RandomStream(uint64_t seed, std::string_view name)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {
  Hash hash;
  hash.Add(name);
  name_ = hash.value();
}

std::array<uint32_t, 4> RandomStream::At(uint64_t index) const {
  return Philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                 static_cast<uint32_t>(name_), static_cast<uint32_t>(name_ >> 32)},
                key_);
}

uint64_t RandomStream::Bits(uint64_t index) const {
  const auto bits = At(index);
  return (static_cast<uint64_t>(bits[1]) << 32) | bits[0];
}

double RandomStream::Uniform(uint64_t index) const {
  return (static_cast<double>(Bits(index) >> 11) + 0.5) * 0x1.0p-53;
}

double RandomStream::Normal(uint64_t index) const {
  const auto bits = At(index);
  const auto uniform = [](uint32_t high, uint32_t low) {
    const uint64_t both = (static_cast<uint64_t>(high) << 32) | low;
    return (static_cast<double>(both >> 11) + 0.5) * 0x1.0p-53;
  };
  const double radius = std::sqrt(-2 * std::log(uniform(bits[0], bits[1])));
  return radius * std::cos(2 * std::numbers::pi * uniform(bits[2], bits[3]));
}

std::array<double, 4> RandomStream::Normals(uint64_t block) const {
  const auto bits = At(block);
  const auto uniform = [](uint32_t number) {
    return (static_cast<double>(number) + 0.5) * 0x1.0p-32;
  };
  std::array<double, 4> normals{};
  for (size_t pair = 0; pair < 4; pair += 2) {
    const float radius = std::sqrt(-2 * std::log(static_cast<float>(uniform(bits[pair]))));
    const auto angle = static_cast<float>(2 * std::numbers::pi * uniform(bits[pair + 1]));
    normals[pair] = static_cast<double>(radius * std::cos(angle));
    normals[pair + 1] = static_cast<double>(radius * std::sin(angle));
  }
  return normals;
}

uint64_t RandomStream::Below(uint64_t index, uint64_t bound) const {
  return static_cast<uint64_t>(Uniform(index) * static_cast<double>(bound));
}

}  // namespace heddle
