#include "run/kernel_environment.h"

#include <cstdlib>
#include <fstream>

namespace heddle {
namespace {

// The newest kernels of OpenBLAS that this processor can run; null: let it find out.
const char* IntelCore() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_is("intel")) return nullptr;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512) return "SKYLAKEX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "HASWELL";
#endif
  return nullptr;
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line;
  }
  return "";
}

}  // namespace

void SetKernelEnvironment() {
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  setenv("GLOG_minloglevel", "3", 0);  // what c10d has to say, we say
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);
  if (const char* core = IntelCore()) setenv("OPENBLAS_CORETYPE", core, 0);
}

std::string KindOfKernels() {
  std::string kind = ProcessorName();
  for (const char* name : {"OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA",
                           "DNNL_MAX_CPU_ISA", "MKL_CBWR"}) {
    const char* value = std::getenv(name);
    kind += std::string("; ") + name + "=" + (value != nullptr ? value : "");
  }
  return kind;
}

}  // namespace heddle
