#include "lab/block_draws.h"

#include <algorithm>
#include <bit>

namespace heddle {

uint64_t StaleChance::Word(int64_t k, int word) {
  const int64_t counter = k * ((stages_ + 4) / 4) + word / 4;
  if (counter != counter_) {
    counter_ = counter;
    words_ = stream_.Words(static_cast<uint64_t>(counter));
  }
  return words_[static_cast<size_t>(word % 4)];
}

int64_t StaleChance::Delay(int64_t k, int chosen, int block) {
  const int64_t most = std::min(depth_, k);
  if (mode_ == DelayMode::kZero || most == 0) return 0;
  if (mode_ == DelayMode::kMaximal) return most;
  const int word = 1 + (block - chosen + 1 + stages_) % stages_;
  return static_cast<int64_t>(Below(Word(k, word), static_cast<uint64_t>(most) + 1));
}

NearDraws::NearDraws(const Schedule& schedule, DelayMode delays, uint64_t seed) : mode(delays) {
  const int stages = schedule.clock.stages;
  const int64_t depth = SteadyDelays(schedule.clock).most;
  StaleChance chance(seed, stages, mode, depth);
  draws.reserve(static_cast<size_t>(schedule.updates));
  // The versions of all blocks before each of the last updates.
  const auto slots = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(depth) + 1));
  std::vector<int32_t> rows(static_cast<size_t>(slots * stages));
  const auto before = [&](int64_t k) { return rows.data() + (k & (slots - 1)) * stages; };
  for (const Event& event : schedule.events) {
    if (event.forward) continue;
    const auto k = static_cast<int64_t>(draws.size());
    const int32_t* now = before(k);
    NearDraw draw{event.tick, chance.Chosen(k), {}};
    for (int j = std::max(0, draw.block - 1); j <= std::min(stages - 1, draw.block + 1); ++j) {
      const int32_t version = before(k - chance.Delay(k, draw.block, j))[j];
      draw.version[static_cast<size_t>(j - draw.block + 1)] = version;
      versions = std::max<int64_t>(versions, now[j] - version + 1);
    }
    draws.push_back(draw);
    std::copy_n(now, stages, before(k + 1));
    ++before(k + 1)[draw.block];
  }
}

}  // namespace heddle
