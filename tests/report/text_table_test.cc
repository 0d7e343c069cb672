// Tables and the width of their text.
#include "report/text_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "report/text_width.h"

namespace heddle {
namespace {

TEST(TextWidthTest, CountsColumnsNotBytes) {
  EXPECT_EQ(DisplayWidth(""), 0);
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("a→b"), 3);
  EXPECT_EQ(DisplayWidth("░▓█·"), 4);
  EXPECT_EQ(DisplayWidth("机器"), 4);
  EXPECT_EQ(DisplayWidth("🚀"), 2);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1);  // e and a combining accent
}

TEST(TextWidthTest, BytesThatAreNotUtf8TakeAColumnEach) {
  EXPECT_EQ(DisplayWidth("\xff\xfe"), 2);
  EXPECT_EQ(DisplayWidth("\xe2\x86"), 2);      // cut in the middle
  EXPECT_EQ(DisplayWidth("\xe2(\xa1"), 3);     // a lead byte without its tail
  EXPECT_EQ(DisplayWidth("\xf8\x88\x80"), 3);  // five-byte forms do not exist
}

TEST(TextWidthTest, FitsAndPads) {
  EXPECT_EQ(Fitted("bert-large", 10), "bert-large");
  EXPECT_EQ(Fitted("bert-large", 6), "bert-…");
  EXPECT_EQ(Fitted("机器学习", 6), "机器…");  // a half character is left out
  EXPECT_EQ(Fitted("abc", 1), "…");
  EXPECT_EQ(PaddedRight("a→b", 5), "a→b  ");
  EXPECT_EQ(PaddedLeft("a→b", 5), "  a→b");
  EXPECT_EQ(PaddedLeft("long", 2), "long");
}

TEST(TextWidthTest, WrapsBetweenWords) {
  EXPECT_EQ(Wrapped("the limit is the wire a->b", 12, 2), "the limit is\n  the wire\n  a->b\n");
  EXPECT_EQ(Wrapped("no limit at all", 0), "no limit at all\n");
  EXPECT_EQ(Wrapped("an extraordinary word", 8), "an\nextraordinary\nword\n");
}

TEST(TextTableTest, AlignsColumnsUnderARule) {
  TextTable table({{"strategy"}, {"iteration", Align::kRight}, {"note"}});
  table.AddRow({"pipeline", "41.0 ms", "best"});
  table.AddRow({"gpipe", "118 ms"});
  table.AddRule();
  table.AddRow({"dp", "", "does not fit"});
  EXPECT_EQ(table.Print({}),
            "strategy  iteration  note\n"
            "────────  ─────────  ────────────\n"
            "pipeline    41.0 ms  best\n"
            "gpipe        118 ms\n"
            "────────  ─────────  ────────────\n"
            "dp                   does not fit\n");
  EXPECT_EQ(table.row_count(), 4);
}

TEST(TextTableTest, AlignsWideAndCombiningText) {
  TextTable table({{"model"}, {"x", Align::kRight}});
  table.AddRow({"机器", "1"});
  table.AddRow({"caf\u0065\u0301", "→2"});
  EXPECT_EQ(table.Print({}),
            "model   x\n"
            "─────  ──\n"
            "机器    1\n"
            "cafe\u0301   →2\n");
}

TEST(TextTableTest, CutsTheWidestTextAndNeverANumber) {
  TextTable table({{"model"}, {"parameters", Align::kRight}, {"what"}});
  table.AddRow({"bert-large", "340000000", "24 layers, hidden 1024"});
  EXPECT_EQ(table.Print({.width = 34}),
            "model       parameters  what\n"
            "──────────  ──────────  ──────────\n"
            "bert-large   340000000  24 layers…\n");
  EXPECT_EQ(table.Print({.width = 5}),
            "model   parameters  what\n"
            "──────  ──────────  ──────\n"
            "bert-…   340000000  24 la…\n");
}

TEST(TextTableTest, ColoursWholeRowsOnlyWhenAsked) {
  TextTable table({{"plan"}});
  table.AddRow({"a"}, Tone::kGood);
  table.AddRow({"b"}, Tone::kBad);
  table.AddRow({"c"}, Tone::kFaint);
  table.AddRow({"d"});
  EXPECT_EQ(table.Print({}), "plan\n────\na\nb\nc\nd\n");
  EXPECT_EQ(table.Print({.colour = true}),
            "\x1b[1mplan\x1b[0m\n────\n"
            "\x1b[32ma\x1b[0m\n\x1b[31mb\x1b[0m\n\x1b[2mc\x1b[0m\nd\n");
}

TEST(TextTableTest, ACellCannotBreakTheTable) {
  TextTable table({{"name"}, {"x"}});
  table.AddRow({"two\nlines", "\x1b[31mred"});
  EXPECT_EQ(table.Print({}),
            "name       x\n"
            "─────────  ────────\n"
            "two lines   [31mred\n");
}

RC_GTEST_PROP(TextTableTest, LinesKeepToTheWidth, ()) {
  const int rows = *rc::gen::inRange(0, 6);
  const int width = *rc::gen::inRange(30, 80);
  TextTable table({{"one"}, {"two", Align::kRight}, {"three"}});
  for (int r = 0; r < rows; ++r) {
    table.AddRow({*rc::gen::arbitrary<std::string>(), std::to_string(*rc::gen::inRange(0, 1000)),
                  *rc::gen::arbitrary<std::string>()});
  }
  const std::string text = table.Print({.width = width});
  const auto lines = SplitAt(text, '\n');
  RC_ASSERT(lines.size() == static_cast<size_t>(rows) + 3);  // titles, rule, and the last newline
  for (const std::string_view line : lines) {
    RC_ASSERT(DisplayWidth(line) <= width);
    RC_ASSERT(!line.ends_with(' '));
  }
}

}  // namespace
}  // namespace heddle
