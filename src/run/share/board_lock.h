// The board's mutex, held; for the files that make up the board.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"
#include "base/futex.h"
#include "run/share/board.h"
#include "run/share/board_damage.h"

namespace heddle {

class Board::Lock {
 public:
  explicit Lock(const Board& board) : memory_(board.m()) {
    const int status = pthread_mutex_lock(&memory_.mutex);
    HEDDLE_CHECK(status == 0 || status == EOWNERDEAD);
    const bool orphaned = status == EOWNERDEAD;  // its owner died in the middle of an edit
    if (orphaned) HEDDLE_CHECK(pthread_mutex_consistent(&memory_.mutex) == 0);
    if (const auto damage = FindDamage(memory_, board.Now())) {
      WriteOff(memory_, *damage, board.Now());
      Board(board).WakeAll();
    }
    if (orphaned) Board(board).Repair();
    memory_.editor = getpid();
  }
  ~Lock() {
    memory_.editor = 0;
    pthread_mutex_unlock(&memory_.mutex);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  BoardMemory& memory_;
};

// Waits on a word of the board's until `done`, or until job j is dead. Whoever is not woken in time
// looks whether somebody has died.
template <class Done>
Status Board::WaitUntil(int32_t j, std::atomic<uint32_t>& word, const Done& done) {
  constexpr int64_t kPatience = 20'000'000;
  while (true) {
    const uint32_t seen = word.load();
    {
      const Lock lock(*this);
      if (!Alive(j)) return Gone(j);
      if (done()) return Ok();
    }
    if (WaitForChange(word, seen, kPatience)) continue;
    const Lock lock(*this);
    SweepLocked();
  }
}

}  // namespace heddle
