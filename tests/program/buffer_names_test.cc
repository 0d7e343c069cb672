#include "program/buffer_names.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "base/philox.h"

namespace heddle {
namespace {

TEST(BufferNamesTest, LikeAMap) {
  BufferNames names;
  std::map<std::tuple<int32_t, int32_t, int64_t>, size_t> expected;
  const RandomStream random(1, "buffer names");
  EXPECT_EQ(names.Find({}), nullptr);
  for (uint64_t k = 0; k < 4000; ++k) {
    BufferKey key;
    key.tensor = static_cast<int32_t>(random.Below(4 * k, 60));
    key.replica = static_cast<int32_t>(random.Below(4 * k + 1, 3));
    key.microbatch = static_cast<int64_t>(random.Below(4 * k + 2, 20));
    const std::tuple name(key.tensor, key.replica, key.microbatch);
    const auto known = expected.find(name);
    const size_t* found = names.Find(key);
    ASSERT_EQ(found != nullptr, known != expected.end());
    if (found != nullptr) {
      EXPECT_EQ(*found, known->second);
    } else {
      EXPECT_EQ(names[key], BufferNames::kFreed);
    }
    const size_t storage = random.Below(4 * k + 3, 10) == 0 ? BufferNames::kFreed : k;
    names[key] = expected[name] = storage;
  }
  EXPECT_EQ(names.entries().size(), expected.size());
  EXPECT_GT(expected.size(), 1000U);
}

}  // namespace
}  // namespace heddle
