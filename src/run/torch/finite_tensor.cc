#include "run/torch/finite_tensor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

// Asking the library costs more than looking.
constexpr int64_t kFew = 2048;

template <class T>
bool FewAreFinite(const at::Tensor& tensor) {
  const T* values = tensor.data_ptr<T>();
  return std::all_of(values, values + tensor.numel(), [](T value) { return std::isfinite(value); });
}

}  // namespace

bool AllFinite(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0) return true;
  if (tensor.numel() <= kFew && tensor.is_contiguous()) {
    if (tensor.scalar_type() == at::kFloat) return FewAreFinite<float>(tensor);
    if (tensor.scalar_type() == at::kDouble) return FewAreFinite<double>(tensor);
  }
  // A sum is not finite if any term is not; it may also have grown too large by itself.
  if (std::isfinite(tensor.sum().item<double>())) return true;
  return at::isfinite(tensor).all().item<bool>();
}

}  // namespace heddle
