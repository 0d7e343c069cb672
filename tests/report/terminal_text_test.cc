#include "report/terminal_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/text_width.h"

namespace heddle {
namespace {

TEST(TerminalTextTest, TheWidthIsAskedForFoundOrUsual) {
  EXPECT_EQ(TerminalKindFrom("120", 60, nullptr).width, 120);
  EXPECT_EQ(TerminalKindFrom(nullptr, 60, nullptr).width, 60);
  EXPECT_EQ(TerminalKindFrom(nullptr, 0, nullptr).width, 80);
  EXPECT_EQ(TerminalKindFrom("wide", 0, nullptr).width, 80);
  EXPECT_EQ(TerminalKindFrom("0", 70, nullptr).width, 70);
  EXPECT_EQ(TerminalKindFrom(nullptr, 500, nullptr).width, 160);  // no one reads such lines
  EXPECT_EQ(TerminalKindFrom("500", 60, nullptr).width, 500);     // but who asks gets them
}

TEST(TerminalTextTest, TheLocaleSaysWhichCharacters) {
  const auto charset = [](const char* locale) {
    return TerminalKindFrom(nullptr, 0, locale).charset;
  };
  for (const char* locale : {"C.UTF-8", "en_US.utf8", "de_DE.UTF-8@euro"}) {
    EXPECT_EQ(charset(locale), Charset::kUtf8) << locale;
  }
  for (const char* locale : {"C", "POSIX", "en_US.ISO-8859-1", "ja_JP.eucJP"}) {
    EXPECT_EQ(charset(locale), Charset::kAscii) << locale;
  }
  EXPECT_EQ(charset(nullptr), Charset::kUtf8);
}

TEST(TerminalTextTest, StandInsKeepTablesAligned) {
  const std::string text = "a:0 │0░░1▓▓█·│\n    └┬──┘ ⋮ ▁▂▃▄▅▆▇ a→b ×4 block0 … 1–2\n";
  const std::string ascii = InCharset(text, Charset::kAscii);
  EXPECT_EQ(ascii, "a:0 |0::1##@.|\n    ++--+ : _.-=+*% a>b x4 block0 ~ 1-2\n");
  EXPECT_EQ(InCharset("2 ≤ 3", Charset::kAscii), "2 <= 3");
  EXPECT_EQ(InCharset("机器 café", Charset::kAscii), "???? caf?");
  EXPECT_EQ(InCharset(text, Charset::kUtf8), text);
}

TEST(TerminalTextTest, LongLinesGoOnUnderTheirSecondColumn) {
  EXPECT_EQ(FittedLines("note        one two three four\nshort\n", 24),
            "note        one two\n            three four\nshort\n");
  EXPECT_EQ(FittedLines("heddle: a word or two\n  hint: and some more of it\n", 16),
            "heddle: a word\n  or two\n  hint: and some\n    more of it\n");
  EXPECT_EQ(FittedLines("no newline at the end", 12), "no newline\n  at the end");
  EXPECT_EQ(FittedLines("an extraordinary word\n", 8), "an\n  extraordinary\n  word\n");
  EXPECT_EQ(FittedLines("as it is\n\n", 0), "as it is\n\n");
}

TEST(TerminalTextTest, CommandsAreContinuedForTheShell) {
  EXPECT_EQ(FittedLines("Example:\n  heddle plan --model gpt --cluster a.toml\n", 30),
            "Example:\n  heddle plan --model gpt \\\n    --cluster a.toml\n");
}

TEST(TerminalTextTest, NamesFromFilesSteerNothing) {
  const std::string_view text = "\x1b[1mname\x1b[0m \x1b[2J\rx\n";
  EXPECT_EQ(ForTerminal(text, {80, Charset::kUtf8, false}),
            "\\x1b[1mname\\x1b[0m \\x1b[2J\\x0dx\n");
  EXPECT_EQ(ForTerminal(text, {80, Charset::kUtf8, true}), "\x1b[1mname\x1b[0m \\x1b[2J\\x0dx\n");
}

TEST(TerminalTextTest, ColoursTakeNoRoom) {
  const std::string painted = "\x1b[32m12345678\x1b[0m 12\n";
  EXPECT_EQ(FittedLines(painted, 11), painted);
}

}  // namespace
}  // namespace heddle
