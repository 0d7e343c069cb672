// The devices and links that are known by name: src/cluster/devices.toml, which the build puts into
// the executable.
//
//   const CatalogueDevice* device = FindDevice("a100-80gb");   // nullptr: no such name
//   spec.types.push_back(device->type);                        // as if a file had stated its
//   figures const CatalogueLink* link = FindLink(device->nvlink);      // "nvlink3"
//
// Invariants: the rates of `type` are `reached` where that is published, `assumed_part` of `peak`
// otherwise, and derived as those of a cluster file where the device has no such arithmetic; every
// figure has a source; the links that a device names are there.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "cluster/cluster_spec.h"

namespace heddle {

struct CatalogueDevice {
  using Rates = std::array<std::optional<FlopRate>, kDTypeCount>;
  std::string name;
  std::string about;
  DeviceTypeSpec type;  // what a cluster gets
  Rates peak;
  Rates reached;
  std::string nvlink;  // empty: has none
  std::string pcie;    // to the other devices of its node, where it has nothing better
  std::string source;  // of peak, memory and its bandwidth
  std::string reached_source;
};

enum class LinkPlace : uint8_t { kInside, kNetwork };
template <>
struct Choices<LinkPlace> {
  static constexpr Choice<LinkPlace> kTable[] = {{LinkPlace::kInside, "inside"},
                                                 {LinkPlace::kNetwork, "network"}};
};

struct CatalogueLink {
  std::string name;
  std::string about;
  LinkPlace place = LinkPlace::kInside;  // of a node, or between nodes
  LinkSpec link;
  std::string source;
};

struct DeviceCatalogue {
  double assumed_part = 1;  // of the peak, where nothing is published
  std::vector<CatalogueDevice> devices;
  std::vector<CatalogueLink> links;
};

// Of the text of such a file. What is wrong with it is named, as in a cluster file.
Result<DeviceCatalogue> ParseDeviceCatalogue(const std::string& text, const std::string& file);

// The one that heddle has.
const DeviceCatalogue& KnownDevices();

// Fills in the rates of a type that are not given; cluster_spec.h says how.
void DeriveFlops(DeviceTypeSpec& type);

inline constexpr char kSwitchSuffix[] = ".switch";  // of a node's own switch

// Joins the devices of a node by a switch of its own, "<node>.switch", instead of in pairs: each
// device has one link, which all that it sends shares.
void JoinBySwitch(const LinkSpec& link, const NodeSpec& node, ClusterSpec& spec);

const CatalogueDevice* FindDevice(std::string_view name);
const CatalogueLink* FindLink(std::string_view name);
std::vector<std::string> KnownDeviceNames();
std::vector<std::string> KnownLinkNames();

}  // namespace heddle
