// Asked to stop: the first SIGINT or SIGTERM is noted and the run stops when it can; a second one
// ends this process at once, without a word.
#pragma once

#include <csignal>

namespace heddle {

void CatchInterrupts();

// The signal that came, or 0.
int CaughtInterrupt();

// For people, on standard error.
inline constexpr const char kStopping[] =
    "\nstopping after the steps under way; once more to end at once\n";

// The exit code of a run that a signal stopped.
inline int CodeOf(int signal) { return 128 + (signal != 0 ? signal : SIGTERM); }

}  // namespace heddle
