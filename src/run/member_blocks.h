// MemberBlocks: the memory of one member of an all-gather or a reduce-scatter, while its moves
// (collective_moves.h) are executed.
//
//   MemberBlocks mine(call, rank, scratch);
//   for (const BlockMove& move : mine.moves()) …   // from Source(move) of one to Target(move) of
//   mine.Arrived(move);                            // another, which is told
//   mine.Finish();                                 // call.out is complete
//
// Sums are made in the order of ranks, whatever the algorithm.
#pragma once

#include <vector>

#include "run/collective_moves.h"
#include "run/communicator.h"

namespace heddle {

class MemberBlocks {
 public:
  // `scratch` is grown as needed. Both must outlive this.
  MemberBlocks(const CollectiveCall& call, size_t rank, std::vector<std::byte>& scratch);

  // Of all members; the same list for each.
  const std::vector<BlockMove>& moves() const { return moves_; }

  std::byte* Source(const BlockMove& move) const;
  std::byte* Target(const BlockMove& move) const;
  void Arrived(const BlockMove& move);
  void Finish();

 private:
  enum class Form : uint8_t { kGather, kSumAtOwner, kSumOnTheWay };
  static Form FormOf(const CollectiveCall& call);
  const std::vector<Payload>& divided() const;  // every member's block

  const CollectiveCall& call_;
  size_t rank_;
  Form form_;
  std::vector<BlockMove> moves_;
  std::vector<std::byte*> place_;  // at the owner: of each rank's part; on the way: of each block
  std::vector<bool> added_;        // on the way: blocks with a part of this member's in their place
};

// Other members, by rank.
class PeerLink {
 public:
  virtual ~PeerLink() = default;
  virtual TicketPtr Send(size_t rank, std::byte* data, size_t bytes) = 0;
  virtual TicketPtr Receive(size_t rank, std::byte* data, size_t bytes) = 0;
};

// Executes one member's moves, and returns when call.out is complete. Throws PeerLost.
void ExchangeBlocksWith(PeerLink& peers, const CollectiveCall& call, size_t rank,
                        std::vector<std::byte>& scratch);

}  // namespace heddle
