#include "run/data/permutation.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace heddle {
namespace {

std::vector<int64_t> All(const Permutation& permutation, int64_t size) {
  std::vector<int64_t> all;
  for (int64_t k = 0; k < size; ++k) all.push_back(permutation.At(k));
  return all;
}

bool IsBijection(std::vector<int64_t> all) {
  std::sort(all.begin(), all.end());
  for (size_t k = 0; k < all.size(); ++k) {
    if (all[k] != static_cast<int64_t>(k)) return false;
  }
  return true;
}

TEST(PermutationTest, EverySizeIsABijection) {
  for (int64_t size = 1; size <= 200; ++size) {
    for (const uint64_t seed : {0, 1, 77}) {
      EXPECT_TRUE(IsBijection(All(Permutation(size, seed, "a"), size))) << size;
    }
  }
  for (const int64_t size : {255, 256, 257, 1023, 4099, 50000, 99999}) {
    EXPECT_TRUE(IsBijection(All(Permutation(size, 5, "large"), size))) << size;
  }
}

TEST(PermutationTest, HugeSizesStayInside) {
  const int64_t size = (int64_t{1} << 53) - 1;
  const Permutation permutation(size, 1, "huge");
  std::set<int64_t> seen;
  for (int64_t k = 0; k < 1000; ++k) seen.insert(permutation.At(size - 1 - k * 1000003));
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_GE(*seen.begin(), 0);
  EXPECT_LT(*seen.rbegin(), size);
}

TEST(PermutationTest, SeedsAndNamesDiffer) {
  const auto order = All(Permutation(100, 1, "a"), 100);
  EXPECT_EQ(order, All(Permutation(100, 1, "a"), 100));
  EXPECT_NE(order, All(Permutation(100, 2, "a"), 100));
  EXPECT_NE(order, All(Permutation(100, 1, "b"), 100));
}

// Each of the six orders of three comes up about as often as the others, and each element is about
// as often at each place.
TEST(PermutationTest, NoOrderIsPreferred) {
  std::map<std::vector<int64_t>, int> orders;
  std::vector<int> first(20);
  constexpr uint64_t kSeeds = 6000;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ++orders[All(Permutation(3, seed, "a"), 3)];
    ++first[static_cast<size_t>(Permutation(20, seed, "a").At(0))];
  }
  EXPECT_EQ(orders.size(), 6U);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, kSeeds / 6.0, 150);
  for (const int count : first) EXPECT_NEAR(count, kSeeds / 20.0, 90);
}

TEST(SampleAtTest, EachEpochVisitsEverySampleInAnOrderOfItsOwn) {
  std::vector<int64_t> before;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t k = 0; k < 37; ++k) order.push_back(SampleAt(epoch * 37 + k, 37, 9));
    EXPECT_TRUE(IsBijection(order));
    EXPECT_NE(order, before);
    before = order;
  }
}

RC_GTEST_PROP(PermutationProperty, Bijection, ()) {
  const auto size = *rc::gen::inRange<int64_t>(1, 3000);
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  RC_ASSERT(IsBijection(All(Permutation(size, seed, "property"), size)));
}

}  // namespace
}  // namespace heddle
