#include "run/share/process_state.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace heddle {

bool ProcessLives(pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return false;
  std::FILE* file = std::fopen(fmt::format("/proc/{}/stat", pid).c_str(), "r");
  if (file == nullptr) return kill(pid, 0) == 0;
  char text[256] = {};
  const size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  // "12 (a name) S …": the state is after the last bracket.
  const char* bracket = static_cast<const char*>(memrchr(text, ')', size));
  if (bracket == nullptr || bracket[1] == 0) return true;
  return bracket[2] != 'Z' && bracket[2] != 'X';
}

}  // namespace heddle
