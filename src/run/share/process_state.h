// Whether a process of this host still runs.
#pragma once

#include <sys/types.h>

namespace heddle {

// False if it has ended, also when its parent has not looked yet.
bool ProcessLives(pid_t pid);

}  // namespace heddle
