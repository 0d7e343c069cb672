// Whole processes, as a person waits for them: wall seconds and peak memory.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {

// Runs heddle with the arguments, output discarded; returns its peak memory in MB, or -1.
double RunHeddle(const std::vector<std::string>& arguments) {
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
  const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return good ? static_cast<double>(usage.ru_maxrss) / 1024 : -1;
}

void RunPlan(benchmark::State& state, const std::vector<std::string>& arguments) {
  double most = 0;
  for (auto _ : state) {
    const double megabytes = RunHeddle(arguments);
    if (megabytes < 0) {
      state.SkipWithError("heddle failed");
      return;
    }
    most = megabytes > most ? megabytes : most;
  }
  state.counters["peak MB"] = most;
}

const std::string kClusters = std::string(HEDDLE_SOURCE_DIR) + "/examples/clusters/";

// Target: under 1 s and 500 MB.
void PlanGpipe1024(benchmark::State& state) {
  RunPlan(state, {"plan", "--strategy", "gpipe", "--model", "gpt?layers=96", "--cluster",
                  kClusters + "fat-tree-1024.toml"});
}
BENCHMARK(PlanGpipe1024)->Unit(benchmark::kMillisecond)->UseRealTime();

void CompareMixed4(benchmark::State& state) {
  RunPlan(state, {"compare", "--model", "gpt?layers=24", "--batch", "64", "--cluster",
                  kClusters + "mixed4.toml"});
}
BENCHMARK(CompareMixed4)->Unit(benchmark::kMillisecond)->UseRealTime();

void PlanDataParallel64(benchmark::State& state) {
  RunPlan(state,
          {"plan", "--strategy", "dp", "--model", "gpt", "--cluster", kClusters + "hap64.toml"});
}
BENCHMARK(PlanDataParallel64)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
