#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>

namespace heddle {
namespace {

std::string HashOfBoth(std::string_view a, std::string_view b) {
  Hash hash;
  hash.Add(a);
  hash.Add(b);
  return hash.Hex();
}

TEST(HashTest, SixteenDigits) {
  EXPECT_EQ(HashOf("gpt").size(), 16U);
  EXPECT_EQ(HashOf("gpt"), HashOf("gpt"));
  EXPECT_NE(HashOf("gpt"), HashOf("gpt "));
}

// The values are in files: they must not change from one version to the next.
TEST(HashTest, IsTheSameForever) {
  Hash hash;
  EXPECT_EQ(hash.Hex(), "cbf29ce484222325");  // FNV-1a of nothing
  EXPECT_EQ(HashOf(""), "a8c7f832281a39c5");  // of eight zero bytes: the length
}

TEST(HashTest, PartsDoNotRunTogether) {
  EXPECT_NE(HashOfBoth("ab", "c"), HashOfBoth("a", "bc"));
  EXPECT_NE(HashOfBoth("", "a"), HashOfBoth("a", ""));
}

TEST(HashTest, ATextInParts) {
  Hash hash;
  hash.AddPart("ab");
  hash.AddPart("");
  hash.AddPart("c");
  hash.Add(int64_t{3});
  EXPECT_EQ(hash.Hex(), HashOf("abc"));
}

TEST(HashTest, NumbersCount) {
  std::set<uint64_t> seen;
  for (const int64_t number : {0LL, 1LL, -1LL, 256LL, 1LL << 40}) {
    Hash hash;
    hash.Add(number);
    seen.insert(hash.value());
  }
  for (const double number : {0.5, 1.0, -0.0}) {
    Hash hash;
    hash.Add(number);
    seen.insert(hash.value());
  }
  EXPECT_EQ(seen.size(), 8U);
}

}  // namespace
}  // namespace heddle
