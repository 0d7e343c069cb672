// Sums in the order of ranks, and gradients as halves.
#include "run/rank_order_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace heddle {
namespace {

std::vector<std::byte> Bytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> ThroughHalves(const std::vector<float>& values) {
  std::vector<std::byte> halves(values.size() * 2);
  ToHalves(DType::kF32, Bytes(values).data(), values.size(), halves.data());
  std::vector<float> back(values.size());
  FromHalves(halves.data(), values.size(), DType::kF32, reinterpret_cast<std::byte*>(back.data()));
  return back;
}

TEST(RankOrderSumTest, OneAfterTheOther) {
  // 1e8 + 1 - 1e8 is 0 in single precision, 1e8 - 1e8 + 1 is 1.
  const std::vector<std::byte> a = Bytes({1e8F}), b = Bytes({1}), c = Bytes({-1e8F});
  std::vector<float> sum(1);
  const std::byte* first[] = {a.data(), b.data(), c.data()};
  SumInRankOrder(DType::kF32, first, 4, reinterpret_cast<std::byte*>(sum.data()));
  EXPECT_EQ(sum[0], 0);
  const std::byte* second[] = {a.data(), c.data(), b.data()};
  SumInRankOrder(DType::kF32, second, 4, reinterpret_cast<std::byte*>(sum.data()));
  EXPECT_EQ(sum[0], 1);
}

TEST(HalvesTest, SmallGradientsKeepTheirDigits) {
  std::vector<float> values;
  for (float value = 2e-8F; value < 15; value *= 1.37F) values.push_back(value);
  const std::vector<float> back = ThroughHalves(values);
  for (size_t k = 0; k < values.size(); ++k) {
    EXPECT_NEAR(back[k], values[k], values[k] / 2048) << values[k];
  }
  EXPECT_EQ(ThroughHalves({0, 1e30F, -1e30F}),
            (std::vector<float>{0, 65504 / 4096.0F, -65504 / 4096.0F}));
}

TEST(HalvesTest, AddedAsFloats) {
  // 1 + 2^-11 is 1 in half precision; four times that is not lost.
  const std::vector<float> small = {std::ldexp(1.0F, -11)};
  std::vector<std::vector<std::byte>> halves(5, std::vector<std::byte>(2));
  ToHalves(DType::kF32, Bytes({1}).data(), 1, halves[0].data());
  std::vector<const std::byte*> parts = {halves[0].data()};
  for (size_t k = 1; k < halves.size(); ++k) {
    ToHalves(DType::kF32, Bytes(small).data(), 1, halves[k].data());
    parts.push_back(halves[k].data());
  }
  std::vector<std::byte> sum(2);
  SumInRankOrder(DType::kF16, parts, 2, sum.data());
  float back = 0;
  FromHalves(sum.data(), 1, DType::kF32, reinterpret_cast<std::byte*>(&back));
  EXPECT_EQ(back, 1 + 4 * small[0]);
}

}  // namespace
}  // namespace heddle
