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

void EndAtOnce(int signal) { _exit(CodeOf(signal)); }

void Handle(void (*handler)(int)) {
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
  // Who was started with it ignored (nohup) wants it so.
  if (std::signal(SIGHUP, handler) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

}  // namespace

void CatchInterrupts() { Handle(OnInterrupt); }

void EndOnInterrupts() { Handle(EndAtOnce); }

int CaughtInterrupt() { return caught; }

}  // namespace heddle
