// RankBeat: a rank's sign of life on the board, as long as this lives.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "run/share/board.h"

namespace heddle {

class RankBeat {
 public:
  static constexpr std::chrono::milliseconds kPause{50};

  RankBeat(Board board, int32_t job, int32_t rank)
      : thread_([this, board = std::move(board), job, rank]() mutable {
          while (!ends_) {
            board.Beat(job, rank);
            std::this_thread::sleep_for(kPause);
          }
        }) {}
  ~RankBeat() {
    ends_ = true;
    thread_.join();
  }
  RankBeat(const RankBeat&) = delete;
  RankBeat& operator=(const RankBeat&) = delete;

 private:
  std::atomic<bool> ends_{false};
  std::thread thread_;  // last: it uses the rest
};

}  // namespace heddle
