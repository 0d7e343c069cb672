#include "worker/interrupt.h"

#include <unistd.h>

namespace heddle {
namespace {

volatile std::sig_atomic_t caught = 0;

void OnInterrupt(int signal) {
  if (caught != 0) _exit(CodeOf(signal));
  caught = signal;
  const ssize_t ignored = write(STDERR_FILENO, kStopping, sizeof kStopping - 1);
  (void)ignored;
}

}  // namespace

void CatchInterrupts() {
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
}

int CaughtInterrupt() { return caught; }

}  // namespace heddle
