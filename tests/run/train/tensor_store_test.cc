#include "run/train/tensor_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "run/train/finite_watch.h"

namespace heddle {
namespace {

template <class T>
StoredTensor Stored(DType dtype, const std::vector<T>& values) {
  return {"x", dtype, {std::ssize(values)}, std::as_bytes(std::span(values))};
}

TEST(AllFiniteBytesTest, EveryType) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(AllFinite(Stored<double>(DType::kF64, {1, -1e308, 5e-324})));
  EXPECT_FALSE(AllFinite(Stored<double>(DType::kF64, {1, -inf})));
  EXPECT_FALSE(AllFinite(Stored<double>(DType::kF64, {NAN})));
  EXPECT_TRUE(AllFinite(Stored<float>(DType::kF32, {3e38F, 3e38F})));
  EXPECT_FALSE(AllFinite(Stored<float>(DType::kF32, {0, NAN, 0})));
  EXPECT_TRUE(AllFinite(Stored<uint16_t>(DType::kF16, {0x7bff, 0x3c00})));
  EXPECT_FALSE(AllFinite(Stored<uint16_t>(DType::kF16, {0xfc00})));
  EXPECT_TRUE(AllFinite(Stored<uint16_t>(DType::kBf16, {0x7f7f})));
  EXPECT_FALSE(AllFinite(Stored<uint16_t>(DType::kBf16, {0x7f81})));
  EXPECT_TRUE(AllFinite(Stored<int64_t>(DType::kI64, {-1})));
  EXPECT_TRUE(AllFinite(Stored<float>(DType::kF32, {})));
}

TEST(TensorHashTest, EveryBitCounts) {
  const std::vector<float> a = {1, 2, 3}, b = {1, 2, 3.0000002F};
  EXPECT_EQ(QuickHashOf({{Stored(DType::kF32, a)}}), QuickHashOf({{Stored(DType::kF32, a)}}));
  EXPECT_NE(QuickHashOf({{Stored(DType::kF32, a)}}), QuickHashOf({{Stored(DType::kF32, b)}}));
  EXPECT_NE(HashOf({{Stored(DType::kF32, a)}}), HashOf({{Stored(DType::kF32, b)}}));
  StoredTensor other = Stored(DType::kF32, a);
  other.name = "y";
  EXPECT_NE(HashOf({{Stored(DType::kF32, a)}}), HashOf({{other}}));
}

TEST(FiniteWatchTest, TheEarliestStepAndThenTheFirstTensor) {
  FiniteWatch watch(FiniteWatch::Manner::kNote);
  EXPECT_FALSE(watch.first());
  EXPECT_TRUE(watch.Asks(2, TensorId{5}));
  watch.Bad(2, TensorId{5});
  EXPECT_FALSE(watch.Asks(3, TensorId{1}));
  watch.Bad(3, TensorId{1});
  EXPECT_EQ(watch.first(), (NotFinite{2, 5}));
  watch.Bad(2, TensorId{4});
  EXPECT_EQ(watch.first(), (NotFinite{2, 4}));
  FiniteWatch strict(FiniteWatch::Manner::kThrow);
  EXPECT_THROW(strict.Bad(0, TensorId{1}), FiniteWatch::Found);
}

}  // namespace
}  // namespace heddle
