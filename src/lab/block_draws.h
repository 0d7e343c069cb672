// BlockDraws: what Randomized PipeDream draws, whatever it computes: which block every update
// changes, and how old what it reads is. A function of the seed and the pipeline alone.
//
//   StaleChance chance(seed, 8, DelayMode::kUniform, 60);
//   const int s = chance.Chosen(k);
//   chance.Delay(k, s, s + 1)                     block s + 1 as it was so many updates ago
//
// Where gradients need the neighbours of a block only, all of a race's draws fit in memory: a
// NearDraws has, for every update, which version of three blocks it reads, and is made once for all
// step sizes. A block's version v is what it was after v updates of its own.
//
//   const NearDraws draws(schedule, mode, seed);
//   for (const NearDraw& draw : draws.draws) …  draw.version[1]    of the chosen block itself
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "lab/schedule.h"

namespace heddle {

enum class DelayMode : uint8_t { kUniform, kMaximal, kZero, kReplay };

class StaleChance {
 public:
  // Delays of at most `depth`, and of the updates there have been. REQUIRES: not kReplay.
  StaleChance(uint64_t seed, int stages, DelayMode mode, int64_t depth)
      : stages_(stages), mode_(mode), depth_(depth), stream_(seed, "lab.rpd") {}

  int Chosen(int64_t k) {
    return static_cast<int>(Below(Word(k, 0), static_cast<uint64_t>(stages_)));
  }
  int64_t Delay(int64_t k, int chosen, int block);

 private:
  // Word number `word` of update k: the first says which block, the others how old those read are,
  // beginning with the block before the chosen one, so that four words do where only neighbours
  // are read.
  uint64_t Word(int64_t k, int word);
  static uint64_t Below(uint64_t word, uint64_t bound) { return (word * bound) >> 32; }

  int stages_;
  DelayMode mode_;
  int64_t depth_;
  RandomStream stream_;
  int64_t counter_ = -1;
  std::array<uint32_t, 4> words_{};
};

struct NearDraw {
  int32_t tick = 0;  // of PipeDream's update of the same number
  int32_t block = 0;
  std::array<int32_t, 3> version{};  // of the blocks before, itself and after, as far as there are
};

struct NearDraws {
  NearDraws(const Schedule& schedule, DelayMode delays, uint64_t seed);

  DelayMode mode;
  std::vector<NearDraw> draws;
  int64_t versions = 1;  // of a block that are under way at once, at most
};

}  // namespace heddle
