#include "base/stop_signals.h"

#include <unistd.h>

#include <cstring>

namespace heddle {
namespace {

constexpr int kStops[] = {SIGINT, SIGTERM, SIGHUP};

// All that a handler may touch.
volatile std::sig_atomic_t first = 0, interrupts = 0;
volatile std::sig_atomic_t ends = 0, second_ends = 0;
std::atomic<const char*> say = nullptr;
std::atomic<std::atomic<int>*> tell = nullptr;
static_assert(std::atomic<int>::is_always_lock_free);

void OnStop(int signal) {
  if (ends != 0) _exit(CodeOf(signal));
  if (std::atomic<int>* const told = tell) {
    int none = 0;
    told->compare_exchange_strong(none, signal);
    return;
  }
  if (first != 0) {
    if (signal != SIGINT) return;
    if (second_ends != 0) _exit(CodeOf(signal));
    interrupts = interrupts + 1;
    return;
  }
  first = signal;
  if (const char* const text = say) {
    const ssize_t ignored = write(STDERR_FILENO, text, std::strlen(text));
    (void)ignored;
  }
}

sigset_t Stops() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStops) sigaddset(&set, signal);
  return set;
}

}  // namespace

void ListenForStops(const StopManner& manner) {
  const StopsHeld held;  // none comes in the middle of this
  ends = manner.ends;
  second_ends = manner.second_ends;
  say = manner.say;
  tell = manner.tell;
  for (const int signal : kStops) {
    const bool ignored = std::signal(signal, OnStop) == SIG_IGN;
    if (signal == SIGHUP && ignored) std::signal(signal, SIG_IGN);
  }
}

int FirstStop() { return first; }
int InterruptsSince() { return interrupts; }

StopsHeld::StopsHeld() {
  const sigset_t set = Stops();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

void StopsHeld::Release() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace heddle
