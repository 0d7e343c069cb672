// Replicas of a weight are the same, to the bit, wherever it is held: after the start, and after
// every step on processors of one kind. Each device sends hashes; the first compares them.
//
//   CompareReplicas(program, hashes, /*alike=*/true)
//     ->  "fc0.w is not the same everywhere: device 2 (b:0) has another than device 0 (a:0), …"
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "program/program.h"

namespace heddle {

// The weights that a device holds between two steps, in one order for all.
std::vector<BufferRef> HeldParameters(const Program& program, int32_t device);

struct DeviceHashes {
  uint64_t kind = 0;             // of its processor and kernels
  std::vector<uint64_t> hashes;  // by HeldParameters
};

// What is unequal, for people; nothing if all is as it must be. `any_kind`: kinds do not matter,
// since nothing was computed yet. Where they do, those of one kind are compared with each other.
std::optional<std::string> CompareReplicas(const Program& program,
                                           std::span<const DeviceHashes> devices, bool any_kind);

}  // namespace heddle
