// Who holds which samples. Microbatch m of M over a batch of N is samples [⌊mN/M⌋, ⌊(m+1)N/M⌋); a
// replicated stage divides its rows by shares, in whole samples, contiguously.
//
//   DivideRows(4, {3, 1})  ->  [0,3) [3,4)
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace heddle {

// Rows of every microbatch.
std::vector<int64_t> MicrobatchRows(int64_t batch, int64_t microbatches);

// Largest remainder; ties go to the earlier device. Zero-length ranges are allowed.
// REQUIRES: shares are not negative and at least one is positive.
std::vector<Range> DivideRows(int64_t rows, const std::vector<double>& shares);

}  // namespace heddle
