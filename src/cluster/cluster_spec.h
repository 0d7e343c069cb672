// ClusterSpec: a cluster as its file says it, before counts and patterns are expanded.
//
// It is small whatever the size of the cluster, so a plan carries it whole (as JSON with the
// same fields as the TOML). docs/cluster.md explains the file by example.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json_fwd.h"
#include "base/result.h"
#include "base/units.h"

namespace heddle {

struct DeviceTypeSpec {
  std::string name;
  // Effective rate of a matrix product, by dtype; what the file leaves out is derived:
  // f64 = f32 / 2, bf16 = f16 = f32, i64 = f32.
  std::array<FlopRate, kDTypeCount> flops{};
  std::array<bool, kDTypeCount> flops_given{};  // which of them the file states
  Bytes memory;
  Bandwidth memory_bandwidth;
  Seconds launch_overhead;  // per op; "launch" in the file, 5 us unless given
  // What the device itself moves of the bytes it sends and receives, while it cannot compute.
  // Nothing: others do that for it.
  std::optional<Bandwidth> message_bandwidth;

  // Of its own time, for so many bytes sent or received.
  Seconds MessageSeconds(double bytes) const {
    return {message_bandwidth ? bytes / message_bandwidth->value : 0};
  }

  FlopRate rate(DType type) const { return flops[static_cast<size_t>(type)]; }
};

struct LinkSpec {
  Bandwidth bandwidth;
  Seconds latency;
  bool half_duplex = false;
};

struct NodeSpec {
  struct Devices {
    std::string type;
    int count = 1;
  };
  std::string name;
  std::optional<int> count;  // given: nodes name0 … name(count-1); absent: one node, `name`
  std::vector<Devices> devices;
  std::optional<LinkSpec> link;  // one link between every pair of devices inside the node
};

struct SwitchSpec {
  std::string name;
  std::optional<int> count;
};

struct EdgeSpec {
  std::array<std::string, 2> between;  // "a", "a:0", "s0", or a pattern "a*"
  LinkSpec link;
};

struct ClusterSpec {
  std::vector<DeviceTypeSpec> types;
  std::vector<NodeSpec> nodes;
  std::vector<SwitchSpec> switches;
  std::vector<EdgeSpec> links;
};

inline constexpr char kClusterSchema[] = "heddle.cluster/1";

// Limits, so that a short hostile file cannot ask for gigabytes.
inline constexpr int kMostDeviceTypes = 256;
inline constexpr int kMostDevices = 65536;
inline constexpr int kMostDevicesInNode = 1024;
inline constexpr int kMostSwitches = 65536;
inline constexpr int kMostLinks = 1 << 18;  // listed ones, patterns expanded
inline constexpr int kMostWires =
    1 << 19;  // in all; a full mesh of 724 devices, or of 1024 in half duplex
inline constexpr int kMostNameLength = 32;

// The one reader of both forms: TOML is turned into JSON first (cluster_toml.cc).
// What it returns has passed CheckClusterSpec.
Result<ClusterSpec> ClusterSpecFromJson(const JsonField& json);

// Exact: reading it back gives the same spec. REQUIRES: CheckClusterSpec passes.
Json ClusterSpecToJson(const ClusterSpec& spec);

// Names (valid, distinct after counts are expanded), device types (known), numbers (positive,
// finite) and counts (within the limits). `where` names the file in errors.
Status CheckClusterSpec(const ClusterSpec& spec, const std::string& where);

}  // namespace heddle
