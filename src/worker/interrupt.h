// Asked to stop: the first SIGINT, SIGTERM or SIGHUP is noted and the run stops when it can. A
// second SIGINT ends this process at once, without a word; the others are often sent several times,
// by a scheduler and the launcher below it, and mean one stop.
#pragma once

#include <csignal>

namespace heddle {

void CatchInterrupts();

// Until then there is nothing to save: each of them ends this process at once, with its code.
void EndOnInterrupts();

// The signal that came, or 0.
int CaughtInterrupt();

// For people, on standard error.
inline constexpr const char kStopping[] =
    "\nstopping after the steps under way; Ctrl-C to end at once\n";

// The exit code of a run that a signal stopped.
inline int CodeOf(int signal) { return 128 + (signal != 0 ? signal : SIGTERM); }

}  // namespace heddle
