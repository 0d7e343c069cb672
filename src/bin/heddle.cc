// heddle: plans, simulates, runs and proves distributed training on mixed clusters (cli/heddle.h).

#include "cli/heddle.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace {

// A file opened while standard output is closed would take its number, and what is printed would go
// there. What takes the places here can only be used the wrong way round, so that printing fails.
void HoldStandardStreams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  HoldStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of whoever writes it
  return heddle::RunHeddle({argv + (argc > 0 ? 1 : 0), argv + argc}, stdout, stderr);
}
