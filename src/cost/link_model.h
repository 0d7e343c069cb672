// How messages that meet on a wire share it, in simulation and planning.
#pragma once

#include <cstdint>

#include "base/choices.h"

namespace heddle {

enum class LinkModel : uint8_t {
  kShared,     // max-min fair: as sockets do
  kExclusive,  // one message at a time on a wire
  kChannels,   // one at a time between two groups of devices, as the pipeline papers assume
};

template <>
struct Choices<LinkModel> {
  static constexpr Choice<LinkModel> kTable[] = {{LinkModel::kShared, "shared"},
                                                 {LinkModel::kExclusive, "exclusive"},
                                                 {LinkModel::kChannels, "channels"}};
};

}  // namespace heddle
