#include "run/vigil.h"

#include <algorithm>

namespace heddle {

Vigil::Verdict Vigil::Look(const SignOfLife& sign, Clock::time_point now) {
  if (sign.beats != last_.beats) heard_ = now;
  if (sign.place != last_.place) {
    if (last_.computing) longest_ = std::max(longest_, now - moved_);
    moved_ = now;
  }
  last_ = sign;
  if (now - heard_ > silence_) return Verdict::kSilent;
  const Clock::duration limit = longest_ == Clock::duration::zero()
                                    ? Clock::duration(kStuckFirst)
                                    : std::max<Clock::duration>(kStuckLeast, kPatience * longest_);
  return sign.computing && now - moved_ > limit ? Verdict::kStuck : Verdict::kWell;
}

}  // namespace heddle
