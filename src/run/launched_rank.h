// LaunchedRank: this process was started as one of many, by torchrun, mpirun or srun; which one it
// is, and where the others are.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace heddle {

struct LaunchedRank {
  std::string launcher;  // "torchrun", "mpirun" or "srun"
  int32_t rank = 0;
  int32_t ranks = 1;
  std::string address;  // of the first rank's host
  uint16_t port = 0;
  bool all_here = false;  // the launcher says that all ranks are on this host
};

// Null where the variable is not set.
using Environment = std::function<const char*(const char* name)>;

// Nothing if no launcher has set its variables. The address of the first rank comes from
// MASTER_ADDR; it is this host only where the launcher says that all ranks are here. The port is
// `port`, or MASTER_PORT if that is 0.
Result<std::optional<LaunchedRank>> FindLaunchedRank(const Environment& environment, int64_t port);

// The address of this host by which it reaches another one.
Result<std::string> AddressTowards(const std::string& host, uint16_t port);

}  // namespace heddle
