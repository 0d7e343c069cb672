// Watching one device from outside: does it still answer, and does it get on?
#pragma once

#include <chrono>
#include <cstdint>

namespace heddle {

// What a device shows of itself at one moment.
struct SignOfLife {
  int64_t beats = 0;       // goes up as long as the process answers
  int64_t place = 0;       // WorkerProgress::packed
  bool computing = false;  // there, rather than waiting for others or between parts of the run
};

class Vigil {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Verdict { kWell, kSilent, kStuck };

  Vigil(std::chrono::milliseconds silence, Clock::time_point now)
      : silence_(silence), heard_(now), moved_(now) {}

  // Silent: no beat for `silence`. Stuck: at one compute instruction for longer than any sensible
  // one takes: kPatience times the longest seen, and kStuckLeast at least.
  Verdict Look(const SignOfLife& sign, Clock::time_point now);

  static constexpr std::chrono::seconds kStuckLeast{8};
  static constexpr std::chrono::seconds kStuckFirst{100};  // before any was seen to end
  static constexpr int kPatience = 10;

 private:
  std::chrono::milliseconds silence_;
  SignOfLife last_;
  Clock::time_point heard_, moved_;
  Clock::duration longest_{0};  // compute instruction that was seen to end
};

}  // namespace heddle
