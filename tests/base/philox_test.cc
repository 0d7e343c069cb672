#include "base/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heddle {
namespace {

// Known answers published with the generator (Random123, kat_vectors).
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, StreamsDifferByNameSeedAndIndexOnly) {
  const RandomStream a(1, "w"), again(1, "w"), name(1, "v"), seed(2, "w");
  EXPECT_EQ(a.Bits(7), again.Bits(7));
  EXPECT_NE(a.Bits(7), a.Bits(8));
  EXPECT_NE(a.Bits(7), name.Bits(7));
  EXPECT_NE(a.Bits(7), seed.Bits(7));
}

TEST(PhiloxTest, MomentsOfUniformAndNormal) {
  const RandomStream stream(3, "moments");
  constexpr int kCount = 20000;
  double uniform = 0, normal = 0, square = 0;
  for (int k = 0; k < kCount; ++k) {
    uniform += stream.Uniform(static_cast<uint64_t>(k));
    const double x = stream.Normal(static_cast<uint64_t>(k));
    normal += x;
    square += x * x;
    EXPECT_LT(stream.Below(static_cast<uint64_t>(k), 10), 10U);
  }
  EXPECT_NEAR(uniform / kCount, 0.5, 0.01);
  EXPECT_NEAR(normal / kCount, 0, 0.03);
  EXPECT_NEAR(square / kCount, 1, 0.05);
}

TEST(PhiloxTest, MomentsOfNormalsByFour) {
  const RandomStream stream(3, "bulk");
  constexpr int kBlocks = 10000;
  double sum = 0, square = 0, neighbours = 0, fourth = 0;
  for (int block = 0; block < kBlocks; ++block) {
    const auto normals = stream.Normals(static_cast<uint64_t>(block));
    EXPECT_EQ(normals, stream.Normals(static_cast<uint64_t>(block)));
    for (const double x : normals) {
      sum += x;
      square += x * x;
      fourth += x * x * x * x;
    }
    neighbours += normals[0] * normals[1] + normals[1] * normals[2] + normals[2] * normals[3];
  }
  EXPECT_NEAR(sum / (4 * kBlocks), 0, 0.02);
  EXPECT_NEAR(square / (4 * kBlocks), 1, 0.03);
  EXPECT_NEAR(fourth / (4 * kBlocks), 3, 0.2);
  EXPECT_NEAR(neighbours / (3 * kBlocks), 0, 0.03);
}

// Parameters of every run so far were drawn with Normal: its results stay.
TEST(PhiloxTest, NormalStaysAsItIs) {
  const RandomStream stream(1, "block0.fc1.w");
  EXPECT_DOUBLE_EQ(stream.Normal(0), -1.6324283195486753);
  EXPECT_DOUBLE_EQ(stream.Normal(12345), -0.24836873970194137);
}

}  // namespace
}  // namespace heddle
