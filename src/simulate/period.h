// Period: the steady pattern in a list of times at which repetitions ended.
#pragma once

#include <span>

#include "base/units.h"

namespace heddle {

struct Period {
  Seconds seconds;
  bool steady = true;  // false: it still changed; the mean of the later half
};

// Repetitions may differ from each other in a steady pattern, say 2 ms, 4 ms, 2 ms, 4 ms; the
// period is then its mean. A pattern must have shown itself twice. `first`: what one repetition
// alone takes, where there is only one.
Period PeriodOf(std::span<const double> finish, Seconds first);

}  // namespace heddle
