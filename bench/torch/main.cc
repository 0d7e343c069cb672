// Starts itself again with the environment that heddle gives its worker: libraries read it when
// they load.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>

#include "run/kernel_environment.h"

int main(int argc, char** argv) {
  if (std::getenv("HEDDLE_BENCH_STARTED") == nullptr) {
    setenv("HEDDLE_BENCH_STARTED", "1", 1);
    heddle::SetKernelEnvironment();
    execv("/proc/self/exe", argv);
    return 1;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
