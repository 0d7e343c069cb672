// Communicator: how one device exchanges memory with the others. It knows devices, tags and bytes,
// nothing of tensors; all operations are asynchronous and keep their memory alive until they end.
//
//   TicketPtr sent = communicator.Send(peer, tag, payload);
//   …
//   sent->Wait();
//
// Messages of one pair and tag keep their order; collectives of one group run in the order in which
// its members post them. Reductions add in the order of ranks, element by element, so that every
// implementation gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/dtype.h"
#include "cost/network_cost.h"

namespace heddle {

// A piece of memory and what keeps it alive. Zero bytes are allowed.
struct Payload {
  std::shared_ptr<void> owner;
  std::byte* data = nullptr;
  size_t bytes = 0;
};

// Another device has failed, so that what was asked of it will not come.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Ticket {
 public:
  virtual ~Ticket() = default;
  virtual void Wait() = 0;  // throws PeerLost
};
using TicketPtr = std::shared_ptr<Ticket>;

// One member's part of a collective. Blocks are in rank order.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int32_t group = 0;          // number in the Program
  int32_t root = 0;           // broadcast: rank
  DType dtype = DType::kF32;  // reductions
  // Of an all-gather or a reduce-scatter: how it is executed (collective_moves.h). Of others: what
  // those who model its time count with.
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  // all-reduce, broadcast: the buffers, in place; `out` is empty.
  // all-gather: one block in, a block from every member out.
  // reduce-scatter: a block for every member in, one out.
  // all-to-all: a block for every member in, a block from every member out.
  std::vector<Payload> in;
  std::vector<Payload> out;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual TicketPtr Send(int32_t peer, int32_t tag, Payload payload) = 0;
  virtual TicketPtr Receive(int32_t peer, int32_t tag, Payload payload) = 0;
  virtual TicketPtr Collective(CollectiveCall call) = 0;
};

}  // namespace heddle
