// FlowDesk: where the ranks of a share say what they want to move over the network, and hear when
// they may and when it has arrived. Behind it sits one process, the office
// (worker/network_office.h), which gives out the nodes' tickets and, where the network is an
// emulated one, knows its time.
//
//   HEDDLE_ASSIGN(FlowDesk desk, FlowDesk::Create());          // before any fork
//   // a rank:                                                 // the office:
//   desk.Post(post);                                           desk.Read(until)
//   desk.AwaitGrant(job, rank, k, patience)                    desk.Grant(job, rank, number)
//   …moves it…                                                 desk.End(job, rank, number, time)
//   desk.AwaitEnd(board, job, rank, number)
//
// A communication is granted when all its ends have posted it, to all of them at once: so grants
// have one order in the whole share, and whoever starts them in that order waits for nobody who
// waits for him.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "run/share/board.h"

namespace heddle {

// One end of a communication. Plain bytes, of which any are one: it goes through a pipe, in one
// piece, and who reads it there looks at it before he believes it (office/post_check.h).
struct FlowPost {
  int32_t job = 0, rank = 0;
  int64_t number = 0;     // of this rank's communications
  int64_t time = 0;       // nanoseconds of the board's clock
  uint8_t performed = 0;  // 1: not a new one, this end is done with it
  int32_t kind = -1;      // of collective, or -1: a message
  int32_t algorithm = 0;
  int32_t channel = 0;  // tag, or number of the group
  int32_t ends = 0;
  std::array<int32_t, kMostSharedDevices> device{};  // of the cluster; a message's sender is first
  int32_t blocks = 0;
  std::array<int64_t, kMostSharedDevices> bytes{};  // that this end puts in
};

class FlowDesk {
 public:
  static Result<FlowDesk> Create();

  // --- Of a rank --------------------------------------------------------------------------------

  void Post(const FlowPost& post) const;
  // The number of this rank's k-th granted communication; nothing if it does not come in time.
  std::optional<int64_t> AwaitGrant(int32_t job, int32_t rank, int64_t k,
                                    int64_t nanoseconds) const;
  // When it had arrived; 0: it has not yet.
  int64_t EndOf(int32_t job, int32_t rank, int64_t number) const;
  Result<int64_t> AwaitEnd(const Board& board, int32_t job, int32_t rank, int64_t number) const;

  // --- Of the office ----------------------------------------------------------------------------

  // What has been posted; waits for it until a time of the board's clock.
  std::vector<FlowPost> Read(int64_t until) const;
  void Grant(int32_t job, int32_t rank, int64_t number) const;
  void End(int32_t job, int32_t rank, int64_t number, int64_t time) const;
  void Beat() const;  // a sign of life

  // --- Of who looks after the office ------------------------------------------------------------

  int64_t beats() const;

  // Communications of one rank that may be under way.
  static constexpr size_t kInFlight = 4096;

 private:
  struct Memory;
  struct RankPart;
  struct Shared;
  explicit FlowDesk(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}
  RankPart& part(int32_t job, int32_t rank) const;

  std::shared_ptr<Memory> memory_;
};

}  // namespace heddle
