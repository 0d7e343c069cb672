#include "run/collective_moves.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace heddle {
namespace {

using Sizes = std::span<const size_t>;

// A chain passes pieces on as they come: few enough that their number costs little, so many that
// waiting for a whole piece at every hop is short beside the exchange. Of whole elements.
constexpr size_t kPieces = 64, kLeastPiece = 8 << 10, kElements = 64;

size_t PieceBytes(Sizes sizes) {
  const size_t sum = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  return std::max(kLeastPiece, (sum / kPieces / kElements + 1) * kElements);
}

bool NothingToMove(Sizes sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](size_t size) { return size == 0; });
}

// Moves that happen when all before them have, by a key.
template <class Key>
class OrderedMoves {
 public:
  void Add(Key key, const BlockMove& move) { moves_.emplace_back(key, move); }
  std::vector<BlockMove> Take() && {
    std::stable_sort(moves_.begin(), moves_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<BlockMove> moves;
    moves.reserve(moves_.size());
    for (const auto& item : moves_) moves.push_back(item.second);
    return moves;
  }

 private:
  std::vector<std::pair<Key, BlockMove>> moves_;
};

std::vector<BlockMove> PaddedRing(Sizes sizes) {
  const size_t members = sizes.size();
  const size_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<BlockMove> moves;
  for (size_t round = 0; round + 1 < members; ++round) {
    for (size_t rank = 0; rank < members; ++rank) {
      const size_t block = (rank + members - round) % members;
      moves.push_back({rank, (rank + 1) % members, block, 0, sizes[block], longest});
    }
  }
  return moves;
}

// What rank h sends to h + 1: its own block, then that of h - 1 as it comes in, and so on to that
// of h + 2. Every hop is busy from the first piece to the last:
//
//   pieces of ranks 0, 1, 2: a b c, d, e f
//     0 → 1   a b c e f
//     1 → 2   d a b c
//     2 → 0   e f d
std::vector<BlockMove> Chains(Sizes sizes) {
  const size_t members = sizes.size(), piece = PieceBytes(sizes);
  OrderedMoves<std::pair<size_t, size_t>> moves;  // place in the hop's line, hops from the owner
  for (size_t rank = 0; rank < members; ++rank) {
    size_t place = 0;
    for (size_t hop = 0; hop + 1 < members; ++hop) {
      const size_t block = (rank + members - hop) % members;
      for (size_t begin = 0; begin < sizes[block]; begin += piece) {
        const size_t bytes = std::min(piece, sizes[block] - begin);
        moves.Add({place++, hop}, {rank, (rank + 1) % members, block, begin, bytes, bytes});
      }
    }
  }
  return std::move(moves).Take();
}

// In round k every rank has one peer to send to and one to receive from: all at once would
// compete, and the slowest would decide. `longest`: what messages are padded to; 0: none is.
std::vector<BlockMove> Direct(Sizes sizes, bool to_owner, size_t longest) {
  const size_t members = sizes.size();
  std::vector<BlockMove> moves;
  for (size_t round = 1; round < members; ++round) {
    for (size_t rank = 0; rank < members; ++rank) {
      const size_t to = (rank + round) % members;
      const size_t block = to_owner ? to : rank;
      const size_t sent = std::max(sizes[block], longest);
      if (sent > 0) moves.push_back({rank, to, block, 0, sizes[block], sent});
    }
  }
  return moves;
}

// Piece m of all that is summed is on hop i at beat m + i:
//
//   0 → 1   m   m+1 m+2                 beats to the right
//   1 → 2       m   m+1 m+2
//   2 → owner       m   m+1 m+2
std::vector<BlockMove> SumChain(Sizes sizes) {
  const size_t members = sizes.size(), piece = PieceBytes(sizes);
  OrderedMoves<size_t> moves;
  size_t number = 0;  // of the piece
  for (size_t owner = 0; owner < members; ++owner) {
    for (size_t begin = 0; begin < sizes[owner]; begin += piece, ++number) {
      const size_t bytes = std::min(piece, sizes[owner] - begin);
      if (members == 2) {  // a + b is b + a
        moves.Add(number, {1 - owner, owner, owner, begin, bytes, bytes, true});
        continue;
      }
      for (size_t rank = 0; rank + 1 < members; ++rank) {
        moves.Add(number + rank, {rank, rank + 1, owner, begin, bytes, bytes, true});
      }
      const size_t last = members - 1;
      if (owner != last) moves.Add(number + last, {last, owner, owner, begin, bytes, bytes});
    }
  }
  return std::move(moves).Take();
}

}  // namespace

bool GoesInPieces(CollectiveAlgorithm algorithm) {
  return algorithm == CollectiveAlgorithm::kGrouped ||
         algorithm == CollectiveAlgorithm::kHierarchical;
}

std::vector<BlockMove> AllGatherMoves(CollectiveAlgorithm algorithm, Sizes sizes) {
  if (NothingToMove(sizes)) return {};
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return PaddedRing(sizes);
    case CollectiveAlgorithm::kTree:
      return Direct(sizes, false, 0);
    case CollectiveAlgorithm::kHierarchical:
    case CollectiveAlgorithm::kGrouped:
      return Chains(sizes);
  }
  return {};
}

std::vector<BlockMove> ReduceScatterMoves(CollectiveAlgorithm algorithm, Sizes sizes) {
  if (NothingToMove(sizes)) return {};
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return Direct(sizes, true, *std::max_element(sizes.begin(), sizes.end()));
    case CollectiveAlgorithm::kTree:
      return Direct(sizes, true, 0);
    case CollectiveAlgorithm::kHierarchical:
    case CollectiveAlgorithm::kGrouped:
      return SumChain(sizes);
  }
  return {};
}

}  // namespace heddle
