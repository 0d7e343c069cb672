#include "worker/interrupt.h"

#include <unistd.h>

namespace heddle {
namespace {

volatile std::sig_atomic_t caught = 0;

void OnInterrupt(int signal) {
  if (caught != 0 && signal == SIGINT) _exit(CodeOf(signal));
  if (caught != 0) return;
  caught = signal;
  const ssize_t ignored = write(STDERR_FILENO, kStopping, sizeof kStopping - 1);
  (void)ignored;
}

}  // namespace

void CatchInterrupts() {
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  // Who was started with it ignored (nohup) wants it so.
  if (std::signal(SIGHUP, OnInterrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

int CaughtInterrupt() { return caught; }

}  // namespace heddle
