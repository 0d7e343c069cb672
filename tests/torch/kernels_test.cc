// The arithmetic is what it is on every processor: verify under the kernels of others, as far as
// this one can execute them. ./dev test kernels does it with all tests of the arithmetic.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/run_heddle.h"

namespace heddle {
namespace {

struct Kernels {
  const char* name;
  const char* environment;
  bool here;
};

std::vector<Kernels> KernelsByProcessor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return {
      {"2004", "OPENBLAS_CORETYPE=PRESCOTT ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41",
       true},
      {"2013", "OPENBLAS_CORETYPE=HASWELL ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2", avx2},
      {"EPYC", "OPENBLAS_CORETYPE=ZEN ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2", avx2},
      {"2017", "OPENBLAS_CORETYPE=SKYLAKEX ATEN_CPU_CAPABILITY=avx512", avx512},
  };
#else
  return {{"this", "", true}};
#endif
}

// Deep, with statistics of few values: what differed first.
TEST(KernelsTest, InceptionIsEqualOnEveryProcessor) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  for (const Kernels& kernels : KernelsByProcessor()) {
    if (!kernels.here) continue;
    const Ran ran = RunShell(std::string(kernels.environment) + " " + self +
                             " --gtest_filter='*VerifyZooTest.Uneven*/inception:RoundingTest.*'");
    EXPECT_EQ(ran.exit_code, 0) << kernels.name << "\n" << ran.out << ran.err;
    EXPECT_NE(ran.out.find("[  PASSED  ] 4 tests."), std::string::npos) << ran.out;
  }
}

}  // namespace
}  // namespace heddle
