#include "run/member_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "base/check.h"
#include "run/rank_order_sum.h"

namespace heddle {
namespace {

// Messages of a chain under way at a time, each way: enough that a hop never waits for word that a
// piece has arrived. Others go in rounds, one message each way.
constexpr size_t kPiecesUnderWay = 4;

void Copy(const std::byte* from, std::byte* to, size_t bytes) {
  if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
}

// One member's messages, in the order of the list.
class Player {
 public:
  Player(PeerLink& peers, MemberBlocks& blocks, size_t under_way)
      : peers_(peers), blocks_(blocks), under_way_(under_way) {}

  void Receive(const BlockMove& move) {
    if (receives_.size() == under_way_) FinishReceive();
    Under& under = Start(receives_, move, blocks_.Target(move));
    under.ticket = peers_.Receive(move.from, under.data, move.sent);
  }

  void Send(const BlockMove& move) {
    while (IsArriving(move)) FinishReceive();
    if (sends_.size() == under_way_) FinishSend();
    Under& under = Start(sends_, move, blocks_.Source(move));
    if (!under.padded.empty()) Copy(blocks_.Source(move), under.data, move.bytes);
    under.ticket = peers_.Send(move.to, under.data, move.sent);
  }

  void Finish() {
    while (!receives_.empty()) FinishReceive();
    while (!sends_.empty()) FinishSend();
  }

 private:
  struct Under {
    const BlockMove& move;
    std::vector<std::byte> padded;  // where the message is longer than the block
    std::byte* data;
    TicketPtr ticket;
  };

  static Under& Start(std::deque<Under>& line, const BlockMove& move, std::byte* data) {
    line.push_back({move, {}, data, nullptr});
    Under& under = line.back();
    if (move.sent == move.bytes) return under;
    under.padded.resize(move.sent);
    under.data = under.padded.data();
    return under;
  }

  bool IsArriving(const BlockMove& move) const {
    return std::any_of(receives_.begin(), receives_.end(), [&](const Under& under) {
      return under.move.block == move.block && under.move.begin == move.begin;
    });
  }

  void FinishReceive() {
    const Under& under = receives_.front();
    under.ticket->Wait();
    if (!under.padded.empty()) Copy(under.data, blocks_.Target(under.move), under.move.bytes);
    blocks_.Arrived(under.move);
    receives_.pop_front();
  }

  void FinishSend() {
    sends_.front().ticket->Wait();
    sends_.pop_front();
  }

  PeerLink& peers_;
  MemberBlocks& blocks_;
  size_t under_way_;
  std::deque<Under> receives_, sends_;
};

}  // namespace

MemberBlocks::Form MemberBlocks::FormOf(const CollectiveCall& call) {
  if (call.kind == CollectiveKind::kAllGather) return Form::kGather;
  HEDDLE_CHECK(call.kind == CollectiveKind::kReduceScatter);
  return GoesInPieces(call.algorithm) ? Form::kSumOnTheWay : Form::kSumAtOwner;
}

const std::vector<Payload>& MemberBlocks::divided() const {
  return form_ == Form::kGather ? call_.out : call_.in;
}

MemberBlocks::MemberBlocks(const CollectiveCall& call, size_t rank, std::vector<std::byte>& scratch)
    : call_(call), rank_(rank), form_(FormOf(call)) {
  std::vector<size_t> sizes;
  for (const Payload& block : divided()) sizes.push_back(block.bytes);
  if (form_ == Form::kGather) {
    HEDDLE_CHECK(call.in[0].bytes == sizes[rank]);
    moves_ = AllGatherMoves(call.algorithm, sizes);
    Copy(call.in[0].data, call.out[rank].data, sizes[rank]);
    return;
  }
  // Halves are rounded once, when all of them have come.
  HEDDLE_CHECK(form_ == Form::kSumAtOwner || call.dtype != DType::kF16);
  HEDDLE_CHECK(call.out[0].bytes == sizes[rank]);
  moves_ = ReduceScatterMoves(call.algorithm, sizes);
  size_t total = 0;
  for (size_t r = 0; r < sizes.size(); ++r) {
    if (r == rank) continue;
    total += form_ == Form::kSumAtOwner ? sizes[rank] : sizes[r];
  }
  if (scratch.size() < total) scratch.resize(total);
  std::byte* next = scratch.data();
  for (size_t r = 0; r < sizes.size(); ++r) {
    const bool at_owner = form_ == Form::kSumAtOwner;
    place_.push_back(r != rank ? next : at_owner ? call.in[rank].data : call.out[0].data);
    if (r != rank) next += at_owner ? sizes[rank] : sizes[r];
  }
  added_.resize(sizes.size());
}

std::byte* MemberBlocks::Source(const BlockMove& move) const {
  if (form_ == Form::kSumOnTheWay && added_[move.block]) return place_[move.block] + move.begin;
  return divided()[move.block].data + move.begin;
}

// On the way, a sum that passes its owner lies where it will lie in the end: what replaces it
// is made of it, and comes only after it has left.
std::byte* MemberBlocks::Target(const BlockMove& move) const {
  if (form_ == Form::kGather) return call_.out[move.block].data + move.begin;
  return place_[form_ == Form::kSumAtOwner ? move.from : move.block] + move.begin;
}

void MemberBlocks::Arrived(const BlockMove& move) {
  if (!move.adds) return;
  std::byte* sum = place_[move.block] + move.begin;
  const std::array<const std::byte*, 2> parts = {sum, call_.in[move.block].data + move.begin};
  SumInRankOrder(call_.dtype, parts, move.bytes, sum);
  added_[move.block] = true;
}

void MemberBlocks::Finish() {
  if (form_ == Form::kSumAtOwner) {
    const std::vector<const std::byte*> parts(place_.begin(), place_.end());
    SumInRankOrder(call_.dtype, parts, call_.out[0].bytes, call_.out[0].data);
  } else if (form_ == Form::kSumOnTheWay && place_.size() == 1) {
    Copy(call_.in[0].data, call_.out[0].data, call_.out[0].bytes);
  }
}

void ExchangeBlocksWith(PeerLink& peers, const CollectiveCall& call, size_t rank,
                        std::vector<std::byte>& scratch) {
  MemberBlocks blocks(call, rank, scratch);
  Player player(peers, blocks, GoesInPieces(call.algorithm) ? kPiecesUnderWay : 1);
  for (const BlockMove& move : blocks.moves()) {
    if (move.to == rank) player.Receive(move);
    if (move.from == rank) player.Send(move);
  }
  player.Finish();
  blocks.Finish();
}

}  // namespace heddle
