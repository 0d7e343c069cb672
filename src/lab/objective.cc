#include "lab/objective.h"

#include <algorithm>

#include "base/check.h"
#include "base/philox.h"

namespace heddle {

std::vector<Block> SplitBlocks(int64_t dimension, int stages) {
  HEDDLE_CHECK(stages >= 1 && stages <= dimension);
  std::vector<Block> blocks;
  for (int64_t s = 0; s < stages; ++s) {
    blocks.push_back({s * dimension / stages, (s + 1) * dimension / stages});
  }
  return blocks;
}

int64_t WidestBlock(const std::vector<Block>& blocks) {
  int64_t widest = 0;
  for (const Block& block : blocks) widest = std::max(widest, block.size());
  return widest;
}

std::vector<Block> Objective::Blocks(int stages) const { return SplitBlocks(dimension(), stages); }

std::vector<double> Objective::Start(uint64_t seed) const {
  const RandomStream stream(seed, "lab.start");
  std::vector<double> start(static_cast<size_t>(dimension()));
  for (size_t k = 0; k < start.size(); ++k) start[k] = stream.Normal(k);
  return start;
}

void Objective::Descend(const Block& block, const double* gradient, double step, double* x) const {
  for (int64_t k = 0; k < block.size(); ++k) x[k] -= step * gradient[k];
}

void Objective::Gradient(const double* x, Pass& pass, double* gradient) const {
  const Block whole{0, dimension()};
  Begin(pass);
  Forward(whole, x, pass);
  Turn(pass);
  Backward(whole, pass, gradient);
}

}  // namespace heddle
