// NodePlacement: which devices of which node a stage gets, in DAPPLE's three policies. Devices of a
// node are equal and are taken from the first on, so that counts per node say everything:
//
//   used {3, 0}, 4 more of nodes with 8       fresh {0, 4}   append {4, 0}   scatter {2, 2}
#pragma once

#include <vector>

namespace heddle {

using NodeCounts = std::vector<int>;  // one for each node

int Sum(const NodeCounts& counts);
NodeCounts Plus(const NodeCounts& a, const NodeCounts& b);
bool OnOneNode(const NodeCounts& counts);

// What `need` more devices may be: all from nodes without any in use (fresh first), all from nodes
// with some in use (append first), one from each node in turn (scatter first). Each set once.
// REQUIRES: as many are free.
std::vector<NodeCounts> PlaceNext(const NodeCounts& size, const NodeCounts& used, int need);

// One device after the other, each placed by any of the policies.
std::vector<NodeCounts> PlaceOneByOne(const NodeCounts& size, const NodeCounts& used, int need);

}  // namespace heddle
