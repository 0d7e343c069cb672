#include "cluster/without_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "cluster/device_catalogue.h"

namespace heddle {
namespace {

// Takes the device's link to the node's own switch away; those of later devices move up with them.
void RemoveInnerLink(const std::string& node, int64_t index, std::vector<EdgeSpec>& links) {
  const std::string own_switch = node + kSwitchSuffix;
  const auto place = [&](const EdgeSpec& edge) -> std::optional<int64_t> {
    const bool inner = edge.between[1] == own_switch && edge.between[0].starts_with(node + ":");
    if (!inner) return std::nullopt;
    return ParseInteger(edge.between[0].substr(node.size() + 1));
  };
  std::erase_if(links, [&](const EdgeSpec& edge) { return place(edge) == index; });
  for (EdgeSpec& edge : links) {
    const auto at = place(edge);
    if (at && *at > index) edge.between[0] = fmt::format("{}:{}", node, *at - 1);
  }
}

}  // namespace

Result<ClusterSpec> WithoutDevice(ClusterSpec spec, const std::string& name) {
  const size_t colon = name.find(':');
  const std::string node_name = name.substr(0, colon);
  const auto index =
      colon == std::string::npos ? std::nullopt : ParseInteger(name.substr(colon + 1));
  const auto node = std::find_if(spec.nodes.begin(), spec.nodes.end(), [&](const NodeSpec& n) {
    return n.name == node_name && !n.count;
  });
  if (!index || node == spec.nodes.end()) {
    return BadInput("cluster", fmt::format("{} cannot be taken out of it", name),
                    "only devices of nodes that are listed one by one can");
  }
  for (const EdgeSpec& edge : spec.links) {
    for (const std::string& end : edge.between) {
      const bool inner = edge.between[1] == node_name + kSwitchSuffix;
      if (!end.starts_with(node_name + ":") || inner) continue;
      return BadInput("cluster",
                      fmt::format("{} cannot be taken out: {} has a link of its own", name, end));
    }
  }
  RemoveInnerLink(node_name, *index, spec.links);
  int64_t at = *index;
  for (NodeSpec::Devices& devices : node->devices) {
    if (at < devices.count) {
      --devices.count;
      break;
    }
    at -= devices.count;
  }
  std::erase_if(node->devices, [](const NodeSpec::Devices& devices) { return devices.count == 0; });
  if (node->devices.empty()) {
    spec.nodes.erase(node);
    std::erase_if(spec.switches, [&](const SwitchSpec& entry) {
      return entry.name == node_name + kSwitchSuffix && !entry.count;
    });
    std::erase_if(spec.links, [&](const EdgeSpec& edge) {
      return edge.between[0] == node_name || edge.between[1] == node_name;
    });
  }
  return spec;
}

}  // namespace heddle
