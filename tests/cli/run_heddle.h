// Runs the heddle executable and keeps what it printed.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/file.h"
#include "support/places.h"
#include "support/temporary_file.h"

namespace heddle {

struct Ran {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// A line for the shell.
inline Ran RunShell(const std::string& line) {
  char error_file[] = "/tmp/heddle-cli-XXXXXX";
  const int fd = mkstemp(error_file);
  close(fd);
  const std::string command = "exec 2>" + std::string(error_file) + "; " + line;
  Ran ran;
  FILE* pipe = popen(command.c_str(), "r");
  char block[4096];
  size_t count = 0;
  while ((count = fread(block, 1, sizeof block, pipe)) > 0) ran.out.append(block, count);
  const int status = pclose(pipe);
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ran.err = ReadFile(error_file).value();
  unlink(error_file);
  return ran;
}

// `arguments` is shell text; quote what needs it. On a terminal so wide that no sentence is broken,
// unless the environment says otherwise, which goes before the command: "COLUMNS=60". However slow
// the machine is, a search is not cut short.
inline Ran RunHeddle(const std::string& arguments,
                     const std::string& environment = "COLUMNS=1000 LC_ALL=C.UTF-8") {
  return RunShell("env " + environment + " HEDDLE_BUDGET=86400 " + HeddleBinary() + " " +
                  arguments);
}

inline std::string ClusterFile(const std::string& name) {
  return SourceDir() + "/examples/clusters/" + name + ".toml";
}

}  // namespace heddle
