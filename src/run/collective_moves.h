// The messages of an all-gather or a reduce-scatter, one by one: what every communicator executes.
// Those of `ring` (padded) and `grouped` put the bytes on the wires that cost/ counts for them
// (tests/run/collective_moves_test.cc).
//
//   std::vector<BlockMove> moves = AllGatherMoves(CollectiveAlgorithm::kGrouped, {8, 2, 2});
//   for (const BlockMove& move : moves) …          // every member does its own, in this order
//
// Blocks are numbered by their owners' ranks. Whatever a move sends, its sender has, or has
// received by a move before it; so members who start their own moves in the order of the list, and
// wait for none but earlier ones, never wait in a circle.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cost/network_cost.h"

namespace heddle {

struct BlockMove {
  size_t from = 0, to = 0;  // ranks
  size_t block = 0;
  size_t begin = 0, bytes = 0;  // the part of the block
  size_t sent = 0;              // bytes of the message: more than `bytes` where it is padded
  bool adds = false;            // the receiver adds its own part of the block
};

//   ring           round k: rank r sends the block of r - k to r + 1, padded to the longest
//   grouped        a chain of messages from every owner around the ring, in pieces, all at once
//   hierarchical   the same: between nodes of several members a block goes once
//   tree           every owner to every other directly
std::vector<BlockMove> AllGatherMoves(CollectiveAlgorithm algorithm, std::span<const size_t> sizes);

// Sums are made in the order of ranks, so that partial sums go from rank 0 up or not at all.
//   ring           round k: rank r sends its part of the block of r + k there, padded to the
//                  longest; the owner adds
//   grouped        every block's sum grows along 0 → 1 → … → p-1 and goes from there to its owner,
//                  in pieces, all at once. Of two ranks, the other sends its part to the owner
//   hierarchical   the same
//   tree           as ring, without padding
std::vector<BlockMove> ReduceScatterMoves(CollectiveAlgorithm algorithm,
                                          std::span<const size_t> sizes);

// Whether it goes in pieces, several of which should be under way at a time.
bool GoesInPieces(CollectiveAlgorithm algorithm);

}  // namespace heddle
