// Whole processes of heddle, timed as a person waits for them: wall seconds, seconds of CPU, peak
// memory.
//
//   RunPlan(state, {"plan", "--strategy", "spmd", …});      // in a benchmark
#pragma once

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace heddle {

struct Spent {
  bool good = false;
  double megabytes = 0;    // at most
  double cpu_seconds = 0;  // of all its threads
};

// Runs heddle with the arguments, output discarded.
inline Spent RunHeddle(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  std::string binary = HEDDLE_BINARY;
  argv.push_back(binary.data());
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {WIFEXITED(status) && WEXITSTATUS(status) == 0,
          static_cast<double>(usage.ru_maxrss) / 1024,
          seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

inline void RunPlan(benchmark::State& state, const std::vector<std::string>& arguments) {
  double most = 0, cpu_seconds = 0;
  for (auto _ : state) {
    const Spent spent = RunHeddle(arguments);
    if (!spent.good) {
      state.SkipWithError("heddle failed");
      return;
    }
    most = spent.megabytes > most ? spent.megabytes : most;
    cpu_seconds += spent.cpu_seconds;
  }
  state.counters["peak MB"] = most;
  state.counters["CPU s"] = benchmark::Counter(cpu_seconds, benchmark::Counter::kAvgIterations);
}

}  // namespace heddle
