// Conversions: every way to bring a tensor from one layout into another, and what it costs.
//
// Layouts of a tensor are numbered (LayoutSpace). A direct conversion changes one axis, or both
// at once where they do the same:
//   R→S slice, R→P mask       free
//   S→P                       fills a full-size buffer with zeros
//   S→R all-gather, P→R all-reduce, P→S reduce-scatter, S(d)→S(e) all-to-all
// Where both axes shard one dimension the inner one divides what the outer one left, so the outer
// state can change only while the inner one does not shard that dimension.
//
// A tensor is produced in one layout and wanted in several: the conversions form a tree, each paid
// once however many ops read the result. TreeSeconds is the least cost of one (a Steiner tree;
// the subset recurrence of Dreyfus and Wagner 1971, on a directed graph).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "plan/spmd/exchange_cost.h"

namespace heddle {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// The layouts of a tensor with so many axes: the states R, P, S0, S1, … of mesh axis 0 (only R on a
// flat mesh), for each those of mesh axis 1.
class LayoutSpace {
 public:
  LayoutSpace(bool flat, const Tensor& tensor);

  int size() const { return outer_ * inner_; }
  Layout At(int number) const;
  int IndexOf(const Layout& layout) const;

 private:
  ShardState StateAt(int number) const;

  int outer_, inner_;
  bool per_sample_;
};

struct Conversion {
  int from = 0, to = 0;
  double seconds = 0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
};

// The communication of a direct conversion; nothing: there is none.
struct Exchange {
  CollectiveKind kind;
  Scope scope;
};
std::optional<Exchange> ExchangeOf(const Layout& from, const Layout& to);

using LayoutSet = uint64_t;  // bit per layout number

inline constexpr LayoutSet OneLayout(int layout) { return LayoutSet{1} << layout; }
// The first of a set that is not empty, removed from it.
inline int TakeFirst(LayoutSet& set) {
  const int first = std::countr_zero(set);
  set &= set - 1;
  return first;
}

// For all tensors of one shape and type.
class ConversionTable {
 public:
  ConversionTable(const Tensor& tensor, const Cluster& cluster, const SpmdMesh& mesh,
                  ShardSizes& sizes, ExchangeCost& exchange);

  const LayoutSpace& space() const { return space_; }
  // The part of the tensor that each device has under the layout.
  const std::vector<double>& SharesOf(int layout) const {
    return shares_[static_cast<size_t>(layout)];
  }
  double bytes() const { return bytes_; }

  // REQUIRES: there is one.
  const Conversion& Direct(int from, int to) const { return direct_[Cell(from, to)]; }
  // The cheapest chain of direct conversions.
  double Seconds(int from, int to) const { return seconds_[Cell(from, to)]; }
  // From the nearest of some layouts. REQUIRES: not empty.
  double SecondsFrom(LayoutSet from, int to) const;

  double TreeSeconds(int source, LayoutSet wanted);
  // Its conversions, in an order in which each finds its `from`.
  std::vector<Conversion> TreeOf(int source, LayoutSet wanted);

 private:
  size_t Cell(int from, int to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(space_.size()) + static_cast<size_t>(to);
  }
  void FindShares(const Tensor& tensor, const SpmdMesh& mesh, ShardSizes& sizes);
  void AddDirect(const Cluster& cluster, const SpmdMesh& mesh, ExchangeCost& exchange);
  void CloseChains();
  void Offer(int from, int to, double seconds, CollectiveAlgorithm algorithm);

  // Trees from every root to each subset of `wanted`; see TreeSeconds.
  struct Trees {
    std::vector<int> wanted;
    std::vector<double> seconds;  // [subset * size + root]
  };
  const Trees& TreesFor(LayoutSet wanted);
  void AddTree(const Trees& trees, size_t subset, int root, std::vector<Conversion>& tree) const;
  void AddChain(int from, int to, std::vector<Conversion>& tree) const;

  LayoutSpace space_;
  double bytes_;
  std::vector<std::vector<double>> shares_;
  std::vector<bool> usable_;        // shards no axis of length one
  std::vector<double> seconds_;     // [from, to]
  std::vector<int> via_;            // the last layout before `to` on the chain
  std::vector<Conversion> direct_;  // [from, to]
  std::unordered_map<LayoutSet, Trees> trees_;
};

}  // namespace heddle
