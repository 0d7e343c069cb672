// Solves Ax = b for a symmetric positive definite A, by Cholesky's factors.
//
//   SolvePositive({2, 1, 1, 2}, {3, 3})           ->  {1, 1}
#pragma once

#include <vector>

namespace heddle {

// `matrix` by row, as many rows as `right` has elements. A pivot that is not positive, from
// rounding, counts as tiny.
std::vector<double> SolvePositive(std::vector<double> matrix, std::vector<double> right);

}  // namespace heddle
