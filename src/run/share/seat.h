// Seat: one rank of a job among others, and what it notes down for those who look later.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "base/result.h"
#include "run/share/board.h"
#include "run/share/flow_desk.h"

namespace heddle {

// How jobs use the same devices.
enum class ShareManner : int32_t {
  kAlone,     // nobody else is there
  kTurns,     // crossover: tokens and network places
  kTogether,  // all at the same time, as processes that know nothing of each other
};

template <>
struct Choices<ShareManner> {
  static constexpr Choice<ShareManner> kTable[] = {{ShareManner::kAlone, "alone"},
                                                   {ShareManner::kTurns, "turns"},
                                                   {ShareManner::kTogether, "together"}};
};

// Modelled time, where devices and network are those of a cluster that is not here.
struct SharePace {
  double dilation = 0;                  // how much slower time goes; 0: nothing is paced
  std::vector<double> segment_seconds;  // of this rank's device, by segment
};

// Where a rank's communication goes by the flow desk.
struct DeskPlace {
  FlowDesk desk;
  bool paced = false;                        // the network is emulated
  std::vector<int32_t> device;               // of the cluster, by rank
  std::vector<std::vector<int32_t>> groups;  // ranks
  double byte_scale = 1;                     // bytes of the plan's type per byte computed in
  double own_seconds = 0;                    // of the device, per byte that it moves

  int64_t Scaled(size_t bytes) const {
    return std::llround(static_cast<double>(bytes) * byte_scale);
  }
};

struct Seat {
  Board board;
  int32_t job = 0;
  int32_t rank = 0;
  ShareManner manner = ShareManner::kTurns;
  bool ordered = true;  // whole steps in the order of the sequence, with network places
  int64_t steps = 0;    // repetitions of the Program's body
  SharePace pace;
  std::optional<DeskPlace> desk;

  // Its collectives have places in the nodes' queues.
  bool queues() const { return manner == ShareManner::kTurns && ordered; }
};

// What a rank measured. Times are nanoseconds of the board's clock.
struct RankNotes {
  std::vector<uint64_t> hashes;  // of its parameters, after each step
  std::vector<int64_t> step_ends;
  std::vector<int64_t> held;  // having the device since it began, at the end of each step
  int64_t turns = 0;
  int64_t deadlines = 0, missed = 0;
  double longest_ratio = 0;  // of processor to modelled seconds of a compute
  double work = 0;           // seconds of a processor that computes took, in all
  double work_took = 0;      // the same by the clock: more if others wanted the processors too
};

Json RankNotesToJson(const RankNotes& notes);
Result<RankNotes> RankNotesFromJson(const JsonField& json);

}  // namespace heddle
