// RankBeat: a rank's sign of life on the board, as long as this lives. With each beat goes the time
// since the last one in which the rank wanted to run and could not: its beat came late, or the
// thread that made this was in line for a processor (Linux counts that, in /proc/…/schedstat).
//
//   RankBeat beat(board, job, rank);   // in the thread that computes
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "base/nap.h"
#include "run/share/board.h"

namespace heddle {

class RankBeat {
 public:
  static constexpr std::chrono::milliseconds kPause{50};

  RankBeat(Board board, int32_t job, int32_t rank);
  ~RankBeat();
  RankBeat(const RankBeat&) = delete;
  RankBeat& operator=(const RankBeat&) = delete;

 private:
  void Loop();
  int64_t Starved(int64_t paused);

  Board board_;
  int32_t job_, rank_;
  std::string schedstat_;  // path
  int64_t in_line_ = 0;    // nanoseconds, so far
  Nap nap_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace heddle
