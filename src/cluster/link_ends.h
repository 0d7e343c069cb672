// LinkEnds: what the ends of a [[link]] stand for.
//
//   "a" the port of node a       "a:0"  its first device      "s0" a switch
//   "a*" every copy of node a    "a*:0" the first device of every copy
//
// Between a single end and a pattern there is a link for each copy; between patterns of n and m
// copies, n a multiple of m, copy i of the larger meets copy i * m / n of the smaller (blocks).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/topology.h"

namespace heddle {

class LinkEnds {
 public:
  // `topology` needs its nodes, devices and switches; both must outlive this.
  LinkEnds(const ClusterSpec& spec, const Topology& topology);

  // The pairs of vertices that the link joins. `where` names it in errors.
  Result<std::vector<std::pair<int, int>>> Pairs(const EdgeSpec& edge,
                                                 const std::string& where) const;

 private:
  // A node or switch of the file, or one copy of it.
  struct Named {
    bool is_node = true;
    int first = 0;  // index into topology.nodes or topology.switches
    int count = 1;
    bool repeated = false;  // stands for several copies: wants a pattern
  };

  void AddNames(bool is_node, int& next, const std::string& name, std::optional<int> count);
  Result<std::vector<int>> Vertices(const std::string& end, const std::string& where) const;
  Result<Named> Find(const std::string& end, std::string_view name, bool pattern,
                     const std::string& where) const;

  const Topology& topology_;
  std::unordered_map<std::string, Named> names_;
  std::vector<std::string> written_names_;  // as the file has them, for suggestions
};

}  // namespace heddle
