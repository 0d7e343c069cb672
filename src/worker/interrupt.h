// What the worker does when it is asked to stop (base/stop_signals.h): the first signal is noted
// and the run stops when it can; a second Ctrl-C ends this process at once.
#pragma once

#include "base/stop_signals.h"

namespace heddle {

// For people, on standard error.
inline constexpr const char kStopping[] =
    "\nstopping after the steps under way; Ctrl-C to end at once\n";

inline void CatchInterrupts() { ListenForStops({.second_ends = true, .say = kStopping}); }

// Until then there is nothing to save: each of them ends this process at once, with its code.
inline void EndOnInterrupts() { ListenForStops({.ends = true}); }

}  // namespace heddle
