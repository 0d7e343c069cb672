// Collectives in two levels: inside the nodes, and across them.
//
// The members are grouped by node. With q nodes of m_k members, the buffer is cut into as many
// lanes as the smallest node has members, L = min m_k. In every node each lane has an owner; the
// j-th owners of all nodes form the ring of lane j, and the L rings work at the same time:
//
//        node 0    node 1    node 2         L = 2
//        0 ──────► 0 ──────► 0 ──► …        lane 0
//        1         1                        (node 1 has three members, one owns no lane)
//        2 ──────► 2 ──────► 1 ──► …        lane 1
//
// Reduce-scatter inside, all-reduce across, all-gather inside: Mikami et al., Massively Distributed
// SGD: ImageNet/ResNet-50 Training in a Flash, 2018 (2D-torus all-reduce); Cho et al.,
// BlueConnect, MLSys 2019. Each ring as in Thakur et al. 2005. Lanes for uneven nodes are ours.
#include <algorithm>
#include <unordered_map>

#include "cost/collectives.h"

namespace heddle {
namespace {

double AsDouble(Bytes bytes) { return static_cast<double>(bytes.value); }

using Members = std::vector<size_t>;  // ranks in the group, in rank order

// In the order in which the nodes first appear in the group.
std::vector<Members> MembersByNode(const Cluster& cluster, std::span<const DeviceId> group) {
  std::vector<Members> nodes;
  std::unordered_map<int, size_t> index_of;
  for (size_t rank = 0; rank < group.size(); ++rank) {
    const auto [found, fresh] = index_of.emplace(cluster.device(group[rank]).node, nodes.size());
    if (fresh) nodes.emplace_back();
    nodes[found->second].push_back(rank);
  }
  return nodes;
}

class TwoLevels {
 public:
  TwoLevels(const CollectiveRequest& request, CommPhases& phases)
      : group_(request.group),
        phases_(phases),
        nodes_(MembersByNode(phases.cluster(), request.group)),
        lanes_(nodes_[0].size()) {
    for (const Members& members : nodes_) lanes_ = std::min(lanes_, members.size());
  }

  const std::vector<Members>& nodes() const { return nodes_; }
  size_t lanes() const { return lanes_; }
  // Member number i of m belongs to lane i L / m; the first of a lane's members owns it.
  size_t LaneOf(size_t i, const Members& members) const { return i * lanes_ / members.size(); }
  size_t OwnerOf(size_t lane, const Members& members) const {
    return (lane * members.size() + lanes_ - 1) / lanes_;
  }

  // The lanes' rings around the nodes, all at once, `repeats` times.
  void AcrossNodes(const std::vector<double>& lane_block, double repeats, bool backward) {
    std::vector<Message> messages;
    for (size_t lane = 0; lane < lanes_; ++lane) {
      for (size_t k = 0; k < nodes_.size(); ++k) {
        const Members& from = nodes_[k];
        const Members& to = nodes_[(k + 1) % nodes_.size()];
        Put(messages, from[OwnerOf(lane, from)], to[OwnerOf(lane, to)], lane_block[lane], backward);
      }
    }
    phases_.AddPhase(messages, repeats);
  }

  // From a node's lane owners to all its members, in all nodes at once: in a node of L members a
  // padded ring all-gather of the lanes, (L-1) (alpha + max lane / bandwidth); in one of m > L
  // the owners first deal m equal pieces of the sum T to the members, then the ring takes
  // (m-1) (alpha + T/m / bandwidth). Backward, with the same bytes: the reduction to the owners.
  void InsideNodes(const std::vector<double>& lane_bytes, bool backward) {
    double sum = 0;
    for (const double bytes : lane_bytes) sum += bytes;
    std::vector<Message> deal;
    for (const Members& members : nodes_) Deal(members, lane_bytes, sum, backward, deal);
    phases_.AddPhase(deal);

    // Rings of m members have m-1 phases; the shorter ones fall silent first.
    const double longest = *std::max_element(lane_bytes.begin(), lane_bytes.end());
    std::vector<size_t> lengths;
    for (const Members& members : nodes_) lengths.push_back(members.size());
    std::sort(lengths.begin(), lengths.end());
    size_t done = 1;
    for (const size_t length : lengths) {
      if (length <= done) continue;
      std::vector<Message> hops;
      for (const Members& members : nodes_) {
        const size_t m = members.size();
        const double block = m == lanes_ ? longest : sum / static_cast<double>(m);
        for (size_t i = 0; m >= length && i < m; ++i) {
          Put(hops, members[i], members[(i + 1) % m], block, backward);
        }
      }
      phases_.AddPhase(hops, static_cast<double>(length - done));
      done = length;
    }
  }

  // Every member's block to the owner of its lane, in all nodes at once.
  void ToLaneOwners(std::span<const Bytes> blocks, bool backward) {
    std::vector<Message> messages;
    for (const Members& members : nodes_) {
      for (size_t i = 0; i < members.size(); ++i) {
        const size_t owner = OwnerOf(LaneOf(i, members), members);
        if (owner == i) continue;
        Put(messages, members[i], members[owner], AsDouble(blocks[members[i]]), backward);
      }
    }
    phases_.AddPhase(messages);
  }

 private:
  void Put(std::vector<Message>& messages, size_t from, size_t to, double bytes,
           bool backward) const {
    if (backward) std::swap(from, to);
    messages.push_back({group_[from], group_[to], bytes});
  }

  // Lane j is the bytes [start_j, start_j + lane_bytes[j]) of the sum, piece i [i, i+1) sum / m:
  // the owner of j sends member i what the two have in common.
  void Deal(const Members& members, const std::vector<double>& lane_bytes, double sum,
            bool backward, std::vector<Message>& messages) const {
    if (members.size() == lanes_) return;
    const double piece = sum / static_cast<double>(members.size());
    double start = 0;
    for (size_t lane = 0; lane < lanes_; ++lane) {
      const double end = start + lane_bytes[lane];
      const size_t owner = OwnerOf(lane, members);
      for (size_t i = 0; i < members.size(); ++i) {
        const double begin = piece * static_cast<double>(i);
        const double common = std::min(end, begin + piece) - std::max(start, begin);
        if (i == owner || common <= 0) continue;
        Put(messages, members[owner], members[i], common, backward);
      }
      start = end;
    }
  }

  std::span<const DeviceId> group_;
  CommPhases& phases_;
  std::vector<Members> nodes_;
  size_t lanes_;
};

}  // namespace

bool SpansNodes(const Cluster& cluster, std::span<const DeviceId> group) {
  const std::vector<Members> nodes = MembersByNode(cluster, group);
  return nodes.size() >= 2 && nodes.size() < group.size();
}

// Reduction to the lane owners inside the nodes, all-reduce of every lane across them (a ring of
// q nodes: 2 (q-1) phases of S / (L q)), and back inside.
void HierarchicalAllReduce(const CollectiveRequest& request, CommPhases& phases) {
  TwoLevels levels(request, phases);
  const double lane = AsDouble(request.sizes[0]) / static_cast<double>(levels.lanes());
  const auto nodes = static_cast<double>(levels.nodes().size());
  const std::vector<double> lane_bytes(levels.lanes(), lane);
  const std::vector<double> ring_block(levels.lanes(), lane / nodes);
  levels.InsideNodes(lane_bytes, true);
  levels.AcrossNodes(ring_block, 2 * (nodes - 1), false);
  levels.InsideNodes(lane_bytes, false);
}

// All-gather: the blocks to the lane owners, a ring all-gather of every lane across the nodes
// ((q-1) phases, padded to the lane's longest block), then from the owners to all members.
// Reduce-scatter: the same messages backward.
void HierarchicalBlocks(const CollectiveRequest& request, CommPhases& phases) {
  const bool backward = request.kind == CollectiveKind::kReduceScatter;
  TwoLevels levels(request, phases);
  std::vector<double> longest(levels.lanes(), 0);
  std::vector<double> sum(levels.lanes(), 0);
  for (const Members& members : levels.nodes()) {
    std::vector<double> block(levels.lanes(), 0);
    for (size_t i = 0; i < members.size(); ++i) {
      block[levels.LaneOf(i, members)] += AsDouble(request.sizes[members[i]]);
    }
    for (size_t lane = 0; lane < levels.lanes(); ++lane) {
      longest[lane] = std::max(longest[lane], block[lane]);
      sum[lane] += block[lane];
    }
  }
  levels.ToLaneOwners(request.sizes, backward);
  levels.AcrossNodes(longest, static_cast<double>(levels.nodes().size()) - 1, backward);
  levels.InsideNodes(sum, backward);
}

// A pipelined chain over one leader per node (the root, elsewhere the first member), then in
// every node a pipelined chain from its leader: (q-1) alpha + S / bandwidth across, then
// max_k (m_k - 1) alpha + S / bandwidth inside.
void HierarchicalBroadcast(const CollectiveRequest& request, CommPhases& phases) {
  const double bytes = AsDouble(request.sizes[0]);
  const auto root = static_cast<size_t>(request.root);
  std::vector<Members> nodes = MembersByNode(phases.cluster(), request.group);
  for (size_t k = 0; k < nodes.size(); ++k) {
    const auto found = std::find(nodes[k].begin(), nodes[k].end(), root);
    if (found == nodes[k].end()) continue;
    std::rotate(nodes[k].begin(), found, nodes[k].end());
    std::rotate(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(k), nodes.end());
    break;
  }
  const auto hop = [&](size_t from, size_t to) {
    return Message{request.group[from], request.group[to], bytes};
  };
  std::vector<Message> across;
  std::vector<Message> inside;
  Seconds across_latency;
  Seconds inside_latency;
  for (size_t k = 0; k < nodes.size(); ++k) {
    if (k > 0) {
      across.push_back(hop(nodes[k - 1][0], nodes[k][0]));
      across_latency += phases.LatencyBetween(across.back().from, across.back().to);
    }
    Seconds latency;
    for (size_t i = 1; i < nodes[k].size(); ++i) {
      inside.push_back(hop(nodes[k][i - 1], nodes[k][i]));
      latency += phases.LatencyBetween(inside.back().from, inside.back().to);
    }
    inside_latency = std::max(inside_latency, latency);
  }
  phases.AddPipelined(across, across_latency);
  phases.AddPipelined(inside, inside_latency);
}

}  // namespace heddle
