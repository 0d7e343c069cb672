// Sharding: how tensors lie on several devices, and the ways an op can be computed there. Nothing
// is listed by hand: the rules follow from the op's letters and its linearity (op_kind.h).
//
// Devices form a mesh with two axes: between nodes, and inside a node. Everything here is about one
// axis; the two are independent of each other. On one axis a tensor is
//   R      replicated: every device has all of it
//   P      partial: the sum of what the devices have
//   S(d)   sharded: each has its part of dimension d, in proportion to a ratio vector
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "model/graph.h"

namespace heddle {

enum class ShardKind : uint8_t { kReplicated, kPartial, kSharded };

struct ShardState {
  ShardKind kind = ShardKind::kReplicated;
  int8_t dim = -1;    // kSharded only
  int8_t ratios = 0;  // kSharded only: which of the plan's ratio vectors

  static constexpr ShardState Replicated() { return {}; }
  static constexpr ShardState Partial() { return {ShardKind::kPartial, -1, 0}; }
  static constexpr ShardState Sharded(int dim, int ratios = 0) {
    return {ShardKind::kSharded, static_cast<int8_t>(dim), static_cast<int8_t>(ratios)};
  }
  auto operator<=>(const ShardState&) const = default;
};

inline constexpr int kMeshAxes = 2;                // between nodes, inside a node
using Layout = std::array<ShardState, kMeshAxes>;  // of a tensor

// How an op is computed along one axis. At most one of the two is set; neither: every device
// computes all of it.
struct AxisRule {
  char letter = 0;      // each device computes its part of this letter
  int8_t ratios = 0;    // the parts
  uint8_t partial = 0;  // bit k: input k is a partial sum; then so are the outputs

  auto operator<=>(const AxisRule&) const = default;
};
using OpRule = std::array<AxisRule, kMeshAxes>;

// Every way to compute the op along an axis, with ratio vector 0: all of it everywhere first, then
// by letter in the op's order, then with partial sums.
std::vector<AxisRule> RulesOf(const Op& op);

// The state in which the op takes its input k, and gives its output k, under a rule of RulesOf.
ShardState InputState(const Op& op, size_t k, const AxisRule& rule);
ShardState OutputState(const Op& op, size_t k, const AxisRule& rule);
Layout InputLayout(const Op& op, size_t k, const OpRule& rule);
Layout OutputLayout(const Op& op, size_t k, const OpRule& rule);

// "R", "P", "S1", "S1'2" with ratio vector 2; a layout has both: "S0.R".
std::string NameOf(const ShardState& state);
std::string NameOf(const Layout& layout);
// "-" for all of it, "n" by letter, "n'2" with ratio vector 2, "P01" with inputs 0 and 1 partial; a
// rule for both axes: "b.n".
std::string NameOf(const AxisRule& rule);
std::string NameOf(const OpRule& rule);

}  // namespace heddle
