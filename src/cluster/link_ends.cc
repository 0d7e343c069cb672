#include "cluster/link_ends.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace heddle {

LinkEnds::LinkEnds(const ClusterSpec& spec, const Topology& topology) : topology_(topology) {
  int next_node = 0;
  for (const NodeSpec& node : spec.nodes) AddNames(true, next_node, node.name, node.count);
  int next_switch = 0;
  for (const SwitchSpec& entry : spec.switches) {
    AddNames(false, next_switch, entry.name, entry.count);
  }
}

void LinkEnds::AddNames(bool is_node, int& next, const std::string& name,
                        std::optional<int> count) {
  const int copies = count.value_or(1);
  names_.emplace(name, Named{is_node, next, copies, count.has_value()});
  for (int copy = 0; copy < count.value_or(0); ++copy) {
    names_.emplace(fmt::format("{}{}", name, copy), Named{is_node, next + copy, 1, false});
  }
  written_names_.push_back(count ? name + "*" : name);
  next += copies;
}

Result<LinkEnds::Named> LinkEnds::Find(const std::string& end, std::string_view name, bool pattern,
                                       const std::string& where) const {
  const auto found = names_.find(std::string(name));
  if (found == names_.end()) {
    return BadInput(where, fmt::format("\"{}\" is no node, device or switch", end),
                    SuggestName(pattern ? fmt::format("{}*", name) : name, written_names_));
  }
  const Named& named = found->second;
  if (pattern && !named.repeated) {
    return BadInput(where, fmt::format("\"{}\" is a pattern, but \"{}\" has no count", end, name),
                    fmt::format("write \"{}\"", name));
  }
  if (!pattern && named.repeated) {
    return BadInput(where, fmt::format("\"{}\" stands for {} copies", end, named.count),
                    fmt::format("write \"{0}*\" for all of them or \"{0}0\" for the first", name));
  }
  return named;
}

Result<std::vector<int>> LinkEnds::Vertices(const std::string& end,
                                            const std::string& where) const {
  const size_t colon = end.find(':');
  std::string_view name = std::string_view(end).substr(0, colon);
  const bool pattern = name.ends_with('*');
  if (pattern) name.remove_suffix(1);
  HEDDLE_ASSIGN(const Named named, Find(end, name, pattern, where));

  std::vector<int> vertices;
  if (colon == std::string::npos) {
    for (int copy = named.first; copy < named.first + named.count; ++copy) {
      vertices.push_back(named.is_node ? topology_.PortVertex(copy) : topology_.SwitchVertex(copy));
    }
    return vertices;
  }
  if (!named.is_node) {
    return BadInput(where, fmt::format("\"{}\": \"{}\" is a switch and has no devices", end, name));
  }
  const auto index = ParseInteger(std::string_view(end).substr(colon + 1));
  for (int copy = named.first; copy < named.first + named.count; ++copy) {
    const Node& node = topology_.nodes[static_cast<size_t>(copy)];
    const auto devices = static_cast<int64_t>(node.devices.size());
    if (!index || *index < 0 || *index >= devices) {
      return BadInput(
          where, fmt::format("\"{}\" names no device", end),
          fmt::format("the devices of \"{0}\" are {0}:0 to {0}:{1}", node.name, devices - 1));
    }
    vertices.push_back(node.devices[static_cast<size_t>(*index)].value);
  }
  return vertices;
}

Result<std::vector<std::pair<int, int>>> LinkEnds::Pairs(const EdgeSpec& edge,
                                                         const std::string& where) const {
  HEDDLE_ASSIGN(const std::vector<int> left, Vertices(edge.between[0], where));
  HEDDLE_ASSIGN(const std::vector<int> right, Vertices(edge.between[1], where));
  const size_t most = std::max(left.size(), right.size());
  const size_t least = std::min(left.size(), right.size());
  if (most % least != 0) {
    return BadInput(where,
                    fmt::format("\"{}\" has {} copies, \"{}\" has {}", edge.between[0], left.size(),
                                edge.between[1], right.size()),
                    "one count must be a multiple of the other; or list the links one by one");
  }
  std::vector<std::pair<int, int>> pairs;
  pairs.reserve(most);
  for (size_t i = 0; i < most; ++i) {
    pairs.emplace_back(left[i * left.size() / most], right[i * right.size() / most]);
  }
  return pairs;
}

}  // namespace heddle
