// Futex: sleeping until a word in shared memory changes, with a limit to the patience.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

namespace heddle {

// True if woken or if the word was not `seen` any more; false if the time was over.
inline bool WaitForChange(std::atomic<uint32_t>& word, uint32_t seen, int64_t nanoseconds) {
  constexpr int64_t kSecond = 1'000'000'000;
  if (nanoseconds <= 0) return false;
  const timespec time{nanoseconds / kSecond, nanoseconds % kSecond};
  const long status =
      syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &time, nullptr, 0);
  return status == 0 || errno != ETIMEDOUT;
}

inline void ChangeAndWake(std::atomic<uint32_t>& word) {
  word.fetch_add(1);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace heddle
