#include "program/text/program_text.h"

#include <gtest/gtest.h>

#include "golden_programs.h"

namespace heddle {
namespace {

// Text without comments, as the printer writes it.
std::string WithoutComments(const std::string& text) {
  std::string out;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.rfind("//", 0) != 0) out += line + "\n";
    begin = end + 1;
  }
  return out;
}

class GoldenProgramTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenProgramTest, PrintsAsWritten) {
  const std::string text = GoldenText(GetParam());
  const auto program = ParseProgram(text, GetParam());
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  EXPECT_EQ(PrintProgram(program.value()), WithoutComments(text));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenProgramTest, testing::ValuesIn(GoldenPrograms()),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

std::string ErrorOf(const std::string& text) {
  const auto program = ParseProgram(text, "p.heddle");
  return program.ok() ? "" : program.error().ToString();
}

constexpr char kSmall[] = R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 1

device 0 "a:0" holds w

tensor x f32[1,4] input
tensor w f32[4,4] parameter
tensor y f32[1,4] activation

segment F forward layers 0..0 rows 0:1
  reads x# w
  writes y#

body
on 0
  compute F #0
  free y#0
)";

// Replaces one line's text and returns the parser's message.
std::string ErrorAfter(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return ErrorOf(text.replace(at, from.size(), to));
}

TEST(ProgramTextTest, SmallProgramIsWellFormed) { EXPECT_EQ(ErrorOf(kSmall), ""); }

TEST(ProgramTextTest, ErrorsNameTheLineAndTheRemedy) {
  EXPECT_NE(ErrorAfter("compute F #0", "compute G #0").find("p.heddle:19: unknown segment \"G\""),
            std::string::npos);
  EXPECT_NE(ErrorAfter("free y#0", "free yy#0").find("did you mean \"y\""), std::string::npos);
  EXPECT_NE(ErrorAfter("free y#0", "free y#0[0:2]").find("not a range within 1"),
            std::string::npos);
  EXPECT_NE(ErrorAfter("samples 1 as 1", "samples 2 as 1").find("add up to 1"), std::string::npos);
  EXPECT_NE(ErrorAfter("f32[1,4] activation", "f33[1,4] activation").find("not a type"),
            std::string::npos);
  EXPECT_NE(ErrorAfter("layers 0..0", "layers 0..1").find("not a range of the 1 layers"),
            std::string::npos);
  EXPECT_NE(ErrorAfter("free y#0", "jump y#0").find("unknown instruction"), std::string::npos);
  EXPECT_NE(ErrorAfter("#0\n  free", "#-\n  free").find("not an index"), std::string::npos);
  EXPECT_NE(ErrorAfter("device 0", "device 1").find("out of order"), std::string::npos);
}

TEST(ProgramTextTest, TruncationIsNoticedAtEveryLine) {
  const std::string text = kSmall;
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
    if (text.find("compute F", at) == std::string::npos) break;  // a body with one line is whole
    EXPECT_NE(ErrorOf(text.substr(0, at)), "") << text.substr(0, at);
  }
}

TEST(ProgramTextTest, RelativeIndicesPrintAsWritten) {
  for (const std::string index : {"i", "i+2", "i-1", "4i", "4i-3", "7"}) {
    std::string text = kSmall;
    text.replace(text.find("free y#0"), 8, "free y#" + index);
    const auto program = ParseProgram(text, "p");
    ASSERT_TRUE(program.ok()) << program.error().ToString();
    EXPECT_EQ(PrintProgram(program.value()), text);
  }
}

// Hand-broken texts that a lenient reader would take for something else.
TEST(ProgramTextTest, NothingIsReadAsSomethingElse) {
  const auto expect = [](const std::string& from, const std::string& to, const std::string& what) {
    EXPECT_NE(ErrorAfter(from, to).find(what), std::string::npos)
        << to << ": " << ErrorAfter(from, to);
  };
  expect("device 0 \"a:0\" holds w", "device 0 \"a:0 holds w", "the closing '\"' is missing");
  expect("compute F #0", "compute F #0 1", "unexpected \"1\"");
  expect("compute F #0", "compute F 0", "unexpected \"0\"");
  expect("compute F #0", "compute F #0 acc acc", "unexpected \"acc\" at the end");
  expect("tensor y", "layers 2\ntensor over", "cannot be called \"over\"");
  expect("body", "layers 9\nbody", "must come before the segments");
  expect("free y#0", "free y#-9223372036854775808i", "is not an index");
  expect("free y#0", "free y#0i", "is not an index");
  expect("  reads x# w", "  ops fc0[5=0:1]\n  reads x# w", "is not a shard");
  expect("f32[1,4] activation", "f32[281474976710656,0,281474976710656] activation",
         "y is too large");
  expect("free y#0", "alias y#0 = w", "y and w differ in type or shape");
  expect("free y#0", "send y#0 to 0", "cannot exchange messages with itself");
  expect("free y#0", "all-reduce y#0 over all ring", "unknown group \"all\"");
}

TEST(ProgramTextTest, CollectivesNeedTheirSizes) {
  const auto error = [](const std::string& collective) {
    std::string text = kSmall;
    text.replace(text.find("tensor x"), 0, "group all 0\n");
    return ErrorOf(text.replace(text.find("free y#0"), 8, collective));
  };
  EXPECT_EQ(error("all-reduce y#0 over all ring"), "");
  EXPECT_NE(error("all-gather y#0 over all ring").find("needs outputs after \"->\" and sizes"),
            std::string::npos);
  EXPECT_NE(
      error("all-reduce y#0 -> y~b#0 over all sizes 4 ring").find("takes no outputs or sizes"),
      std::string::npos);
  EXPECT_NE(
      error("all-gather y#0 -> y~b#0 over all sizes 4,4 ring").find("2 sizes for a group of 1"),
      std::string::npos);
  EXPECT_NE(error("all-gather y#0 -> y~b#0 over all sizes 200000000000000000 ring")
                .find("bad list of sizes"),
            std::string::npos);
  EXPECT_NE(error("all-gather y#0 -> y~b#0 over all sizes 4 to sizes 4 ring")
                .find("only all-to-all has a second division"),
            std::string::npos);
  EXPECT_NE(error("broadcast y#0 over all root 1 ring").find("out of range"), std::string::npos);
  EXPECT_NE(error("all-reduce y#0 over all fastest").find("unknown algorithm"), std::string::npos);
}

TEST(ProgramTextTest, WordsWithSpacesAreQuoted) {
  std::string text = kSmall;
  text.replace(text.find("strategy none"), 13, "strategy \"two words\"");
  EXPECT_EQ(PrintProgram(ParseProgram(text, "p").value()), text);
}

}  // namespace
}  // namespace heddle
