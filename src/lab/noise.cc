#include "lab/noise.h"

#include "base/philox.h"

namespace heddle {

Noise::Noise(uint64_t seed, int64_t count) {
  const RandomStream stream(seed, "lab.noise");
  numbers_.resize(static_cast<size_t>(count + 3) / 4 * 4);
  for (size_t block = 0; block < numbers_.size() / 4; ++block) {
    const std::array<double, 4> normals = stream.Normals(block);
    for (size_t k = 0; k < 4; ++k) numbers_[4 * block + k] = static_cast<float>(normals[k]);
  }
}

}  // namespace heddle
