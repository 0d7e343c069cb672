#include "cluster/cluster.h"

#include <algorithm>
#include <unordered_map>

#include "base/hash.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/text.h"
#include "cluster/routes.h"
#include "cluster/topology.h"

namespace heddle {

struct Cluster::State {
  State(ClusterSpec given, Topology expanded)
      : spec(std::move(given)), topology(std::move(expanded)), routes(topology) {
    for (int i = 0; i < topology.node_count(); ++i) {
      node_by_name.emplace(topology.nodes[static_cast<size_t>(i)].name, i);
    }
  }

  const ClusterSpec spec;
  const Topology topology;
  const RouteTable routes;  // refers to topology
  std::unordered_map<std::string, int> node_by_name;
};

Result<Cluster> Cluster::Make(ClusterSpec spec, const std::string& file) {
  HEDDLE_RETURN_IF_ERROR(CheckClusterSpec(spec, file));
  HEDDLE_ASSIGN(Topology topology, ExpandTopology(spec, file));
  HEDDLE_RETURN_IF_ERROR(CheckConnected(topology, file));
  return Cluster(std::make_unique<State>(std::move(spec), std::move(topology)));
}

Cluster::Cluster(std::unique_ptr<State> state) : state_(std::move(state)) {}
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;
Cluster::~Cluster() = default;

const ClusterSpec& Cluster::spec() const { return state_->spec; }
const std::vector<DeviceTypeSpec>& Cluster::types() const { return state_->spec.types; }
const std::vector<Device>& Cluster::devices() const { return state_->topology.devices; }
const std::vector<Node>& Cluster::nodes() const { return state_->topology.nodes; }
const std::vector<Wire>& Cluster::wires() const { return state_->topology.wires; }
int Cluster::device_count() const { return state_->topology.device_count(); }

const Device& Cluster::device(DeviceId id) const {
  HEDDLE_CHECK(id.valid() && id.value < device_count());
  return devices()[static_cast<size_t>(id.value)];
}

const DeviceTypeSpec& Cluster::type_of(DeviceId id) const {
  return types()[static_cast<size_t>(device(id).type)];
}

std::optional<DeviceId> Cluster::FindDevice(std::string_view name) const {
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto node = state_->node_by_name.find(std::string(name.substr(0, colon)));
  const auto index = ParseInteger(name.substr(colon + 1));
  if (node == state_->node_by_name.end() || !index || *index < 0) return std::nullopt;
  const std::vector<DeviceId>& members = nodes()[static_cast<size_t>(node->second)].devices;
  if (static_cast<size_t>(*index) >= members.size()) return std::nullopt;
  const DeviceId id = members[static_cast<size_t>(*index)];
  return device(id).name == name ? std::optional(id) : std::nullopt;  // not "a:007"
}

const Route& Cluster::RouteBetween(DeviceId from, DeviceId to) const {
  HEDDLE_CHECK(from.valid() && from.value < device_count());
  HEDDLE_CHECK(to.valid() && to.value < device_count());
  return state_->routes.Between(from, to);
}

std::string Cluster::ContentHash() const {
  ClusterSpec sorted = spec();  // JSON may list the types in any order, TOML has them sorted
  std::sort(sorted.types.begin(), sorted.types.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return HashOf(JsonText(ClusterSpecToJson(sorted)));
}

}  // namespace heddle
