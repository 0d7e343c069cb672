#include "run/kernel_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace heddle {
namespace {

// What is left unset by the person may be set; what was set stays, or `./dev test kernels` and
// those who look for a wrong kernel would not get the one they asked for.
TEST(KernelEnvironmentTest, WhatThePersonHasSetStays) {
  constexpr const char* kAsked[][2] = {{"OPENBLAS_CORETYPE", "PRESCOTT"},
                                       {"ATEN_CPU_CAPABILITY", "default"},
                                       {"ONEDNN_MAX_CPU_ISA", "SSE41"}};
  for (const auto& [name, value] : kAsked) setenv(name, value, 1);
  SetKernelEnvironment();
  for (const auto& [name, value] : kAsked) EXPECT_EQ(std::string(getenv(name)), value) << name;
  for (const auto& [name, value] : kAsked) unsetenv(name);
  SetKernelEnvironment();
  EXPECT_EQ(getenv("ATEN_CPU_CAPABILITY"), nullptr);
  EXPECT_EQ(getenv("ONEDNN_MAX_CPU_ISA"), nullptr);
  EXPECT_EQ(std::string(getenv("OMP_NUM_THREADS")), "1");
}

}  // namespace
}  // namespace heddle
