// heddle share: several jobs on the same devices.
#pragma once

#include "cli/command.h"

namespace heddle {

void AddShareCommand(Commands& commands);

}  // namespace heddle
