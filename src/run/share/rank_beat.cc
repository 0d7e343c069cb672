#include "run/share/rank_beat.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace heddle {
namespace {

// "ran waited slices": nanoseconds that a thread has waited for a processor. 0 where nobody counts.
int64_t WaitedForProcessor(const std::string& schedstat) {
  std::ifstream file(schedstat);
  int64_t ran = 0, waited = 0;
  return file >> ran >> waited ? waited : 0;
}

}  // namespace

RankBeat::RankBeat(Board board, int32_t job, int32_t rank)
    : board_(std::move(board)),
      job_(job),
      rank_(rank),
      schedstat_(fmt::format("/proc/self/task/{}/schedstat", syscall(SYS_gettid))),
      in_line_(WaitedForProcessor(schedstat_)),
      nap_(board_.clock()),
      thread_(board_.clock().Start([this] { Loop(); })) {}

RankBeat::~RankBeat() {
  nap_.End();
  thread_.join();
}

void RankBeat::Loop() {
  board_.Beat(job_, rank_);
  for (int64_t start = board_.Now(); nap_.For(kPause); start = board_.Now()) {
    board_.Beat(job_, rank_, Starved(board_.Now() - start));
  }
}

int64_t RankBeat::Starved(int64_t paused) {
  const int64_t late = paused - std::chrono::nanoseconds(kPause).count();
  const int64_t before = in_line_;
  in_line_ = std::max(in_line_, WaitedForProcessor(schedstat_));
  return std::max({int64_t{0}, late, in_line_ - before});
}

}  // namespace heddle
