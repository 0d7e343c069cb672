// Collectives that see the group as one list of members, whatever their nodes.
#include <algorithm>
#include <bit>
#include <numeric>

#include "cost/collectives.h"

namespace heddle {
namespace {

double AsDouble(Bytes bytes) { return static_cast<double>(bytes.value); }

// Every member to the next, the last to the first.
std::vector<Message> RingHops(std::span<const DeviceId> group, double bytes) {
  std::vector<Message> hops;
  hops.reserve(group.size());
  for (size_t i = 0; i < group.size(); ++i) {
    hops.push_back({group[i], group[(i + 1) % group.size()], bytes});
  }
  return hops;
}

// Binomial tree over the ranks relative to the root: with mask = 2^k, …, 2, 1, every relative
// rank r that is a multiple of 2 * mask serves the members r + mask … r + 2 * mask - 1.
// Eight members:   0──────►4        mask 4
//                  0──►2   4──►6    mask 2
//                  0►1 2►3 4►5 6►7  mask 1
// Far hops come first, so that members close in rank order talk last and most.
class BinomialTree {
 public:
  BinomialTree(const CollectiveRequest& request, CommPhases& phases)
      : group_(request.group),
        root_(request.kind == CollectiveKind::kBroadcast ? static_cast<size_t>(request.root) : 0),
        phases_(phases) {}

  // From the root down; bytes_of(first, last) is what the members [first, last) need.
  template <class BytesOf>
  void Down(BytesOf bytes_of) {
    for (size_t mask = std::bit_ceil(size()) / 2; mask >= 1; mask /= 2) {
      phases_.AddPhase(Round(mask, false, bytes_of));
    }
  }

  // From the leaves up: the same messages the other way, near hops first.
  template <class BytesOf>
  void Up(BytesOf bytes_of) {
    for (size_t mask = 1; mask < size(); mask *= 2) phases_.AddPhase(Round(mask, true, bytes_of));
  }

 private:
  size_t size() const { return group_.size(); }
  DeviceId Member(size_t relative) const { return group_[(relative + root_) % size()]; }

  template <class BytesOf>
  std::vector<Message> Round(size_t mask, bool up, BytesOf bytes_of) const {
    std::vector<Message> messages;
    for (size_t parent = 0; parent + mask < size(); parent += 2 * mask) {
      const size_t child = parent + mask;
      const double bytes = bytes_of(child, std::min(child + mask, size()));
      messages.push_back(up ? Message{Member(child), Member(parent), bytes}
                            : Message{Member(parent), Member(child), bytes});
    }
    return messages;
  }

  std::span<const DeviceId> group_;
  size_t root_;
  CommPhases& phases_;
};

}  // namespace

// Reduce-scatter and all-gather around the ring: 2 (p-1) (alpha + S/p / bandwidth).
// Patarasu and Yuan 2009; Thakur et al. 2005.
void RingAllReduce(const CollectiveRequest& request, CommPhases& phases) {
  const auto members = static_cast<double>(request.group.size());
  phases.AddPhase(RingHops(request.group, AsDouble(request.sizes[0]) / members), 2 * (members - 1));
}

// All-gather or reduce-scatter around the ring, every block padded to the longest:
// (p-1) (alpha + max_i b_i / bandwidth). Thakur et al. 2005. Both move the same bytes.
void RingBlocks(const CollectiveRequest& request, CommPhases& phases) {
  const Bytes longest = *std::max_element(request.sizes.begin(), request.sizes.end());
  phases.AddPhase(RingHops(request.group, AsDouble(longest)),
                  static_cast<double>(request.group.size()) - 1);
}

// The root sends to the next in rank order, and so on, in small pieces:
// (p-1) alpha + S / bandwidth. Chan et al. 2007 call it the pipelined broadcast.
void ChainBroadcast(const CollectiveRequest& request, CommPhases& phases) {
  std::vector<Message> hops = RingHops(request.group, AsDouble(request.sizes[0]));
  std::rotate(hops.begin(), hops.begin() + request.root, hops.end());
  hops.pop_back();  // the one back to the root
  Seconds latency;
  for (const Message& hop : hops) latency += phases.LatencyBetween(hop.from, hop.to);
  phases.AddPipelined(hops, latency);
}

// Every member to every other: p-1 rounds, in round k to the k-th next (Thakur et al. 2005, the
// pairwise exchange). Rounds drift into each other when sizes differ, so the wires are charged
// the whole exchange at once: sum over rounds of alpha + max over wires (bytes / bandwidth).
void DirectAllToAll(const CollectiveRequest& request, CommPhases& phases) {
  const size_t size = request.group.size();
  std::vector<Message> messages;
  Seconds latency;
  for (size_t round = 1; round < size; ++round) {
    Seconds alpha;
    for (size_t from = 0; from < size; ++from) {
      const size_t to = (from + round) % size;
      const double bytes = AsDouble(request.sizes[from * size + to]);
      if (bytes == 0) continue;
      messages.push_back({request.group[from], request.group[to], bytes});
      alpha = std::max(alpha, phases.LatencyBetween(request.group[from], request.group[to]));
    }
    latency += alpha;
  }
  phases.AddPipelined(messages, latency);
}

// ceil(log2 p) rounds each way along a binomial tree (Thakur et al. 2005, Chan et al. 2007):
//   broadcast       S down
//   all-reduce      S up (reduction), S down
//   all-gather      gather: the blocks of each subtree up; then all of them down
//   reduce-scatter  reduction: all blocks up; scatter: the blocks of each subtree down
void TreeCollective(const CollectiveRequest& request, CommPhases& phases) {
  std::vector<double> sum_before(request.sizes.size() + 1, 0);  // of the blocks before a rank
  for (size_t i = 0; i < request.sizes.size(); ++i) {
    sum_before[i + 1] = sum_before[i] + AsDouble(request.sizes[i]);
  }
  const auto whole = [&](size_t, size_t) { return sum_before.back(); };
  const auto subtree = [&](size_t first, size_t last) {
    return sum_before[last] - sum_before[first];
  };
  BinomialTree tree(request, phases);
  switch (request.kind) {
    case CollectiveKind::kBroadcast:
      return tree.Down(whole);
    case CollectiveKind::kAllReduce:
      tree.Up(whole);
      return tree.Down(whole);
    case CollectiveKind::kAllGather:
      tree.Up(subtree);
      return tree.Down(whole);
    case CollectiveKind::kReduceScatter:
      tree.Up(whole);
      return tree.Down(subtree);
    case CollectiveKind::kAllToAll:
      break;
  }
  HEDDLE_CHECK(false);
}

namespace {

// One pipelined chain broadcast per member with a block, all sharing the ring: the hop from rank h
// to h+1 carries every block but that of h+1, whose chain starts there.
void GroupedAllGather(const CollectiveRequest& request, CommPhases& phases) {
  const size_t size = request.group.size();
  const Bytes sum = std::accumulate(request.sizes.begin(), request.sizes.end(), Bytes{0});
  std::vector<Message> hops = RingHops(request.group, 0);
  Seconds around;
  for (size_t h = 0; h < size; ++h) {
    hops[h].bytes = AsDouble(sum - request.sizes[(h + 1) % size]);
    around += phases.LatencyBetween(hops[h].from, hops[h].to);
  }
  Seconds latency;
  for (size_t i = 0; i < size; ++i) {
    if (request.sizes[i].value == 0) continue;
    const Message& left_out = hops[(i + size - 1) % size];
    latency += around - phases.LatencyBetween(left_out.from, left_out.to);
  }
  phases.AddPipelined(hops, latency);
}

// One pipelined chain reduction per member with a block, in the order of ranks, so that everyone's
// sums are the same to the bit: from rank 0 to the last, which sends each sum to its owner. Of two
// members, the other sends its part to the owner.
void GroupedReduceScatter(const CollectiveRequest& request, CommPhases& phases) {
  const size_t last = request.group.size() - 1;
  const Bytes sum = std::accumulate(request.sizes.begin(), request.sizes.end(), Bytes{0});
  std::vector<Message> hops;
  Seconds along;
  for (size_t h = 0; h < last && last > 1; ++h) {
    hops.push_back({request.group[h], request.group[h + 1], AsDouble(sum)});
    along += phases.LatencyBetween(hops.back().from, hops.back().to);
  }
  Seconds latency;
  for (size_t i = 0; i <= last; ++i) {
    if (request.sizes[i].value == 0) continue;
    latency += along;
    if (i == last && last > 1) continue;
    const DeviceId from = request.group[last > 1 ? last : 1 - i];
    hops.push_back({from, request.group[i], AsDouble(request.sizes[i])});
    latency += phases.LatencyBetween(from, request.group[i]);
  }
  phases.AddPipelined(hops, latency);
}

}  // namespace

// Chains, each of exactly its own block's size:
//   sum over members with b_i > 0 of (p-1) alpha, plus max over wires (bytes / bandwidth).
void GroupedBlocks(const CollectiveRequest& request, CommPhases& phases) {
  if (request.kind == CollectiveKind::kAllGather) return GroupedAllGather(request, phases);
  GroupedReduceScatter(request, phases);
}

}  // namespace heddle
