// heddle devices: the devices and links that are known by name.
#pragma once

#include "cli/command.h"

namespace heddle {

void AddDevicesCommand(Commands& commands);

}  // namespace heddle
