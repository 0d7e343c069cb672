// Strong ids: an index that cannot be mistaken for another kind of index.
//
//   struct DeviceTag;  using DeviceId = Id<DeviceTag>;
//   DeviceId d{3};  devices[d.value];
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace heddle {

template <class Tag>
struct Id {
  int32_t value = -1;

  constexpr bool valid() const { return value >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
};

using DeviceId = Id<struct DeviceTag>;  // a device of a Cluster
using LayerId = Id<struct LayerTag>;    // a layer of a Graph's chain

}  // namespace heddle

template <class Tag>
struct std::hash<heddle::Id<Tag>> {
  size_t operator()(heddle::Id<Tag> id) const noexcept { return std::hash<int32_t>()(id.value); }
};
