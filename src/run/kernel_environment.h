// What libtorch and its BLAS read from the environment when they load, and so before they load.
#pragma once

#include <string>

namespace heddle {

// One thread per device; and the kernels of this processor. Debian 12's OpenBLAS (0.3.21) does not
// know Intel's processors since 2023 and takes those of 2004: products five times slower. What the
// user has set stays.
void SetKernelEnvironment();

// The processor and what was chosen for it: where two are equal, so are the bits of the same
// arithmetic.
std::string KindOfKernels();

}  // namespace heddle
