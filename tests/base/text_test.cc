#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Names = std::vector<std::string>;

TEST(TextTest, WordsBetweenSpaces) {
  EXPECT_THAT(SplitWords("  a\tbc  d "), ElementsAre("a", "bc", "d"));
  EXPECT_THAT(SplitWords(" \t "), IsEmpty());
}

TEST(TextTest, PiecesBetweenSeparators) {
  EXPECT_THAT(SplitAt("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(SplitAt("", ','), ElementsAre(""));
  EXPECT_THAT(SplitAt("a,", ','), ElementsAre("a", ""));
}

TEST(TextTest, Join) {
  EXPECT_EQ(Join(Names{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(Join(Names{}, ", "), "");
}

TEST(TextTest, WholeIntegersOnly) {
  EXPECT_EQ(ParseInteger("42"), 42);
  EXPECT_EQ(ParseInteger("-7"), -7);
  EXPECT_EQ(ParseInteger("9223372036854775807"), INT64_MAX);
  for (const char* text : {"", "+1", " 1", "1 ", "1.0", "0x1", "9223372036854775808", "-"}) {
    EXPECT_EQ(ParseInteger(text), std::nullopt) << text;
  }
}

TEST(TextTest, WholeFiniteNumbersOnly) {
  EXPECT_EQ(ParseReal("42"), 42);
  EXPECT_EQ(ParseReal("+.5"), 0.5);
  EXPECT_EQ(ParseReal("-1e-3"), -1e-3);
  for (const char* text : {"", "+", "+-1", "++1", "-", " 1", "1 ", "1,5", "nan", "inf", "-inf",
                           "1e999", "0x10", "abc"}) {
    EXPECT_EQ(ParseReal(text), std::nullopt) << text;
  }
}

TEST(TextTest, GroupsOfDigits) {
  EXPECT_EQ(GroupDigits(0), "0");
  EXPECT_EQ(GroupDigits(999), "999");
  EXPECT_EQ(GroupDigits(1000), "1,000");
  EXPECT_EQ(GroupDigits(1115394), "1,115,394");
  EXPECT_EQ(GroupDigits(-123456), "-123,456");
  EXPECT_EQ(GroupDigits(INT64_MIN), "-9,223,372,036,854,775,808");
}

TEST(TextTest, PlainNamesLeadNowhere) {
  for (const char* name : {"a", "job-1", "a.b_c", "0"}) EXPECT_TRUE(IsPlainName(name)) << name;
  for (const char* name : {"", ".", "..", ".a", "a/b", "../a", "a b", "\x1b[2J", "é"}) {
    EXPECT_FALSE(IsPlainName(name)) << name;
  }
  EXPECT_TRUE(IsPlainName(std::string(64, 'a')));
  EXPECT_FALSE(IsPlainName(std::string(65, 'a')));
}

TEST(TextTest, WhatWouldSteerATerminalIsShown) {
  EXPECT_EQ(Printable("plain, é and 漢…"), "plain, é and 漢…");
  EXPECT_EQ(Printable("\x1b[31mred\a"), "\\x1b[31mred\\x07");
  EXPECT_EQ(Printable("a\nb\tc", "\n\t"), "a\nb\tc");
  EXPECT_EQ(Printable("a\nb"), "a\\x0ab");
  EXPECT_EQ(Printable("a\u009bm\u202eb\u2066"), "a\\u009bm\\u202eb\\u2066");
  EXPECT_EQ(Printable("\x7f\xe2"), "\\x7f\xe2") << "half a character is none of these";
}

TEST(TextTest, NearestName) {
  const Names zoo = {"mlp", "gpt", "vgg19", "bert-large"};
  EXPECT_EQ(NearestName("gtp", zoo), "gpt");
  EXPECT_EQ(NearestName("gpt2", zoo), "gpt");
  EXPECT_EQ(NearestName("bert_larg", zoo), "bert-large");
  EXPECT_EQ(NearestName("resnet152", zoo), std::nullopt);
  EXPECT_EQ(NearestName("gpt", Names{}), std::nullopt);
  EXPECT_EQ(NearestName(std::string(5000, 'g'), zoo), std::nullopt);
}

TEST(TextTest, TheFirstOfEquallyNearNames) {
  EXPECT_EQ(NearestName("ab", Names{"ax", "ay"}), "ax");
}

TEST(TextTest, SuggestionsListWhatIsKnown) {
  EXPECT_EQ(SuggestName("gtp", Names{"mlp", "gpt"}), "did you mean \"gpt\"? known: mlp, gpt");
  EXPECT_EQ(SuggestName("something else", Names{"mlp", "gpt"}), "known: mlp, gpt");
  Names many(100, "name");
  EXPECT_THAT(SuggestName("x", many), testing::EndsWith("name, …"));
  EXPECT_LT(SuggestName("x", many).size(), 200U);
}

}  // namespace
}  // namespace heddle
