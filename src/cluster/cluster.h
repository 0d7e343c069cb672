// Cluster: devices and the network between them, with any connectivity.
//
//   HEDDLE_ASSIGN(Cluster cluster, LoadCluster("examples/clusters/mixed4.toml"));
//   const Route& route = cluster.RouteBetween(DeviceId{0}, DeviceId{3});
//   Seconds t = route.latency + bytes / route.bandwidth;
//
// A Cluster is made from a ClusterSpec (cluster_spec.h), the file as people write it. The network
// is a graph whose vertices are devices, node ports and switches. Every link has two directions,
// each with its own bandwidth (full duplex), or one shared by both (half duplex).
// Invariants: connected; at least one device; all rates positive and finite; immutable, and safe
// to read from several threads (routes are found on demand and cached).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/id.h"
#include "base/result.h"
#include "base/units.h"
#include "cluster/cluster_spec.h"

namespace heddle {

// One direction of a link: the unit of bandwidth that transfers compete for.
// A half-duplex link has one WireId for both directions.
using WireId = Id<struct WireTag>;

struct Device {
  std::string name;  // "a:0"
  int type = 0;      // index into Cluster::types()
  int node = 0;      // index into Cluster::nodes()
};

struct Wire {
  std::string name;  // "a->s0", or "a--s0" when half duplex
  Bandwidth bandwidth;
  Seconds latency;
};

struct Node {
  std::string name;
  std::vector<DeviceId> devices;
};

// How messages travel from one device to another: cut-through over every wire in turn.
struct Route {
  std::vector<WireId> wires;  // empty from a device to itself
  Seconds latency;            // sum over the wires
  Bandwidth bandwidth;        // the narrowest wire; infinite for an empty route
};

class Cluster {
 public:
  // Expands counts and patterns, checks names and connectivity. `file` names the source in errors.
  static Result<Cluster> Make(ClusterSpec spec, const std::string& file);

  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;
  ~Cluster();

  const ClusterSpec& spec() const;
  const std::vector<DeviceTypeSpec>& types() const;
  const std::vector<Device>& devices() const;
  const std::vector<Node>& nodes() const;
  const std::vector<Wire>& wires() const;

  int device_count() const;
  const Device& device(DeviceId id) const;
  const DeviceTypeSpec& type_of(DeviceId id) const;
  std::optional<DeviceId> FindDevice(std::string_view name) const;

  // The route with the least sum of (latency + 1 MiB / bandwidth) over its wires; ties go to the
  // path through the earlier vertices of the file, so that routes are deterministic.
  // Between devices of one node it stays on the node's own links where they connect the two.
  const Route& RouteBetween(DeviceId from, DeviceId to) const;

  // Hash of everything that matters to a plan (types, nodes, links), not of comments or order
  // of keys in the file.
  std::string ContentHash() const;

 private:
  struct State;
  explicit Cluster(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads TOML, or JSON when the path ends in ".json".
Result<Cluster> LoadCluster(const std::string& path);
Result<Cluster> ParseClusterToml(const std::string& text, const std::string& file);

}  // namespace heddle
