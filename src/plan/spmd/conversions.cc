#include "plan/spmd/conversions.h"

#include <algorithm>

namespace heddle {

LayoutSpace::LayoutSpace(bool flat, const Tensor& tensor)
    : outer_(flat ? 1 : 2 + static_cast<int>(tensor.shape.size())),
      inner_(2 + static_cast<int>(tensor.shape.size())),
      per_sample_(tensor.per_sample) {
  HEDDLE_CHECK(size() <= 64);
}

ShardState LayoutSpace::StateAt(int number) const {
  if (number == 0) return ShardState::Replicated();
  if (number == 1) return ShardState::Partial();
  const int dim = number - 2;
  return ShardState::Sharded(dim, per_sample_ && dim == 0 ? kSampleRatios : kOtherRatios);
}

Layout LayoutSpace::At(int number) const {
  return {StateAt(number / inner_), StateAt(number % inner_)};
}

int LayoutSpace::IndexOf(const Layout& layout) const {
  const auto number = [](const ShardState& state) {
    if (state.kind == ShardKind::kSharded) return 2 + state.dim;
    return state.kind == ShardKind::kPartial ? 1 : 0;
  };
  return number(layout[0]) * inner_ + number(layout[1]);
}

namespace {

bool Shards(const ShardState& state) { return state.kind == ShardKind::kSharded; }
bool IsPartial(const ShardState& state) { return state.kind == ShardKind::kPartial; }
bool IsReplicated(const ShardState& state) { return state.kind == ShardKind::kReplicated; }

// The exchange from one state to another different one; nothing: no communication.
std::optional<CollectiveKind> KindOf(const ShardState& from, const ShardState& to) {
  if (IsReplicated(from) || IsPartial(to)) return std::nullopt;
  if (IsPartial(from)) {
    return Shards(to) ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce;
  }
  return Shards(to) ? CollectiveKind::kAllToAll : CollectiveKind::kAllGather;
}

}  // namespace

std::optional<Exchange> ExchangeOf(const Layout& from, const Layout& to) {
  const size_t axis = from[0] != to[0] ? 0 : 1;
  const auto kind = KindOf(from[axis], to[axis]);
  if (!kind) return std::nullopt;
  const bool both = from[0] != to[0] && from[1] != to[1];
  const Scope one = axis == 0 ? Scope::kBetweenNodes : Scope::kInsideNode;
  return Exchange{*kind, both ? Scope::kAllDevices : one};
}

namespace {

bool IsDirect(const Layout& from, const Layout& to) {
  if (from[0] == to[0]) return from[1] != to[1];
  if (from[1] != to[1]) {
    return from[0] == from[1] && to[0] == to[1] && KindOf(from[0], to[0]).has_value();
  }
  return !Shards(from[1]) || (from[0] != from[1] && to[0] != from[1]);
}

}  // namespace

ConversionTable::ConversionTable(const Tensor& tensor, const Cluster& cluster, const SpmdMesh& mesh,
                                 ShardSizes& sizes, ExchangeCost& exchange)
    : space_(mesh.flat(), tensor), bytes_(static_cast<double>(tensor.bytes().value)) {
  const auto cells = static_cast<size_t>(space_.size()) * static_cast<size_t>(space_.size());
  seconds_.assign(cells, kNever);
  via_.assign(cells, -1);
  direct_.resize(cells);
  FindShares(tensor, mesh, sizes);
  AddDirect(cluster, mesh, exchange);
  CloseChains();
}

void ConversionTable::FindShares(const Tensor& tensor, const SpmdMesh& mesh, ShardSizes& sizes) {
  const size_t width = mesh.places(1);
  for (int k = 0; k < space_.size(); ++k) {
    const Layout layout = space_.At(k);
    std::vector<double> shares(mesh.size(), 1);
    bool usable = true;
    for (const ShardState& state : layout) {
      usable = usable && (!Shards(state) || tensor.shape[static_cast<size_t>(state.dim)] > 1);
    }
    usable_.push_back(usable);
    for (size_t place = 0; usable && place < shares.size(); ++place) {
      int64_t outer = 0;
      if (Shards(layout[0])) {
        const int64_t extent = tensor.shape[static_cast<size_t>(layout[0].dim)];
        outer = sizes.Of(0, layout[0].ratios, extent)[place / width];
        shares[place] *= static_cast<double>(outer) / static_cast<double>(extent);
      }
      if (Shards(layout[1])) {
        const bool nested = Shards(layout[0]) && layout[0].dim == layout[1].dim;
        const int64_t extent = nested ? outer : tensor.shape[static_cast<size_t>(layout[1].dim)];
        const int64_t inner = sizes.Of(1, layout[1].ratios, extent)[place % width];
        shares[place] *= extent == 0 ? 0 : static_cast<double>(inner) / static_cast<double>(extent);
      }
    }
    shares_.push_back(std::move(shares));
  }
}

void ConversionTable::Offer(int from, int to, double seconds, CollectiveAlgorithm algorithm) {
  if (seconds >= seconds_[Cell(from, to)]) return;
  seconds_[Cell(from, to)] = seconds;
  via_[Cell(from, to)] = from;
  direct_[Cell(from, to)] = {from, to, seconds, algorithm};
}

void ConversionTable::AddDirect(const Cluster& cluster, const SpmdMesh& mesh,
                                ExchangeCost& exchange) {
  std::vector<int> share_ids;
  for (const std::vector<double>& shares : shares_) share_ids.push_back(exchange.Intern(shares));
  const auto fill_seconds = [&](int to) {
    double most = 0;
    for (size_t place = 0; place < mesh.size(); ++place) {
      const DeviceTypeSpec& type = cluster.type_of(mesh.device(place));
      const double bytes = bytes_ * SharesOf(to)[place];
      most = std::max(most, type.launch_overhead.value + bytes / type.memory_bandwidth.value);
    }
    return most;
  };
  for (int from = 0; from < space_.size(); ++from) {
    for (int to = 0; to < space_.size(); ++to) {
      const size_t a = static_cast<size_t>(from), b = static_cast<size_t>(to);
      const Layout before = space_.At(from), after = space_.At(to);
      if (!usable_[a] || !usable_[b] || !IsDirect(before, after)) continue;
      if (const auto needed = ExchangeOf(before, after)) {
        const ExchangeCost::Choice choice =
            exchange.Of(needed->kind, needed->scope, share_ids[a], share_ids[b], bytes_);
        Offer(from, to, choice.seconds, choice.algorithm);
        continue;
      }
      const bool fills = before[0] != after[0] ? Shards(before[0]) : Shards(before[1]);
      Offer(from, to, fills ? fill_seconds(to) : 0, CollectiveAlgorithm::kRing);
    }
  }
}

// Floyd and Warshall.
void ConversionTable::CloseChains() {
  const int size = space_.size();
  for (int k = 0; k < size; ++k) seconds_[Cell(k, k)] = 0;
  for (int middle = 0; middle < size; ++middle) {
    for (int from = 0; from < size; ++from) {
      const double first = Seconds(from, middle);
      if (first == kNever || from == middle) continue;
      for (int to = 0; to < size; ++to) {
        const double seconds = first + Seconds(middle, to);
        if (seconds >= Seconds(from, to)) continue;
        seconds_[Cell(from, to)] = seconds;
        via_[Cell(from, to)] = via_[Cell(middle, to)];
      }
    }
  }
}

double ConversionTable::SecondsFrom(LayoutSet from, int to) const {
  double least = kNever;
  while (from != 0) least = std::min(least, Seconds(TakeFirst(from), to));
  return least;
}

// seconds[X][v], the least tree from v to all of X, is the least over layouts u of the chain v→u
// plus a split of X at u into two trees; for one layout it is the chain.
const ConversionTable::Trees& ConversionTable::TreesFor(LayoutSet wanted) {
  const auto [found, fresh] = trees_.try_emplace(wanted);
  Trees& trees = found->second;
  if (!fresh) return trees;
  for (LayoutSet left = wanted; left != 0;) trees.wanted.push_back(TakeFirst(left));
  const auto size = static_cast<size_t>(space_.size());
  const size_t subsets = size_t{1} << trees.wanted.size();
  trees.seconds.assign(subsets * size, 0);
  std::vector<double> split(size);
  for (size_t subset = 1; subset < subsets; ++subset) {
    double* least = &trees.seconds[subset * size];
    if (std::has_single_bit(subset)) {
      const int to = trees.wanted[static_cast<size_t>(std::countr_zero(subset))];
      for (size_t v = 0; v < size; ++v) least[v] = Seconds(static_cast<int>(v), to);
      continue;
    }
    std::fill(split.begin(), split.end(), kNever);
    for (size_t part = (subset - 1) & subset; part > 0; part = (part - 1) & subset) {
      const double* one = &trees.seconds[part * size];
      const double* other = &trees.seconds[(subset ^ part) * size];
      for (size_t u = 0; u < size; ++u) split[u] = std::min(split[u], one[u] + other[u]);
    }
    for (size_t v = 0; v < size; ++v) {
      least[v] = kNever;
      for (size_t u = 0; u < size; ++u) {
        least[v] = std::min(least[v], seconds_[v * size + u] + split[u]);
      }
    }
  }
  return trees;
}

double ConversionTable::TreeSeconds(int source, LayoutSet wanted) {
  wanted &= ~OneLayout(source);
  if (wanted == 0) return 0;
  if (std::has_single_bit(wanted)) return Seconds(source, std::countr_zero(wanted));
  const Trees& trees = TreesFor(wanted);
  const auto size = static_cast<size_t>(space_.size());
  return trees.seconds[trees.seconds.size() - size + static_cast<size_t>(source)];
}

void ConversionTable::AddChain(int from, int to, std::vector<Conversion>& tree) const {
  if (from == to) return;
  const int before = via_[Cell(from, to)];
  AddChain(from, before, tree);
  const bool there =
      std::any_of(tree.begin(), tree.end(), [&](const Conversion& made) { return made.to == to; });
  if (!there) tree.push_back(direct_[Cell(before, to)]);
}

void ConversionTable::AddTree(const Trees& trees, size_t subset, int root,
                              std::vector<Conversion>& tree) const {
  const auto size = static_cast<size_t>(space_.size());
  if (std::has_single_bit(subset)) {
    return AddChain(root, trees.wanted[static_cast<size_t>(std::countr_zero(subset))], tree);
  }
  double least = kNever;
  int branch = root;
  size_t best_part = 0;
  for (size_t part = (subset - 1) & subset; part > 0; part = (part - 1) & subset) {
    for (size_t u = 0; u < size; ++u) {
      const double seconds = Seconds(root, static_cast<int>(u)) + trees.seconds[part * size + u] +
                             trees.seconds[(subset ^ part) * size + u];
      if (seconds >= least) continue;
      least = seconds;
      branch = static_cast<int>(u);
      best_part = part;
    }
  }
  AddChain(root, branch, tree);
  AddTree(trees, best_part, branch, tree);
  AddTree(trees, subset ^ best_part, branch, tree);
}

std::vector<Conversion> ConversionTable::TreeOf(int source, LayoutSet wanted) {
  std::vector<Conversion> tree;
  wanted &= ~OneLayout(source);
  if (wanted == 0) return tree;
  const Trees& trees = TreesFor(wanted);
  AddTree(trees, (size_t{1} << trees.wanted.size()) - 1, source, tree);
  // Where conversions are free a chain may pass the source again.
  std::erase_if(tree, [&](const Conversion& conversion) { return conversion.to == source; });
  return tree;
}

}  // namespace heddle
