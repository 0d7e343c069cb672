#include "cluster/without_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace heddle {

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
      if (!end.starts_with(node_name + ":")) continue;
      return BadInput("cluster",
                      fmt::format("{} cannot be taken out: {} has a link of its own", name, end));
    }
  }
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
    std::erase_if(spec.links, [&](const EdgeSpec& edge) {
      return edge.between[0] == node_name || edge.between[1] == node_name;
    });
  }
  return spec;
}

}  // namespace heddle
