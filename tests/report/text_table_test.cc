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

TEST(TextTableTest, TextGoesOnInFurtherLines) {
  TextTable table({{"model"}, {"parameters", Align::kRight}, {"what"}});
  table.AddRow({"bert-large", "340,000,000", "24 layers, hidden 1024"});
  table.AddRow({"gpt", "124", "12 layers"});
  EXPECT_EQ(table.Print({.width = 36}),
            "model        parameters  what\n"
            "──────────  ───────────  ───────────\n"
            "bert-large  340,000,000  24 layers,\n"
            "                         hidden 1024\n"
            "gpt                 124  12 layers\n");
}

TEST(TextTableTest, ColumnsGoByRankAndAreNamed) {
  TextTable table({{"strategy"},
                   {"iteration", Align::kRight},
                   {"devices", Align::kRight, 1},
                   {"planned in", Align::kRight, 2}});
  table.AddRow({"1f1b", "41.0 ms", "64", "1.20 s"});
  EXPECT_EQ(table.Print({.width = 40}), table.Print({}));  // it just fits
  EXPECT_EQ(table.Print({.width = 39}),
            "strategy  iteration  devices\n"
            "────────  ─────────  ───────\n"
            "1f1b        41.0 ms       64\n"
            "With COLUMNS=40 or --json also: planned\n"
            "in.\n");
  EXPECT_EQ(table.Print({.width = 20}),
            "strategy  iteration\n"
            "────────  ─────────\n"
            "1f1b        41.0 ms\n"
            "With COLUMNS=40 or\n"
            "--json also:\n"
            "devices, planned in.\n");
}

TEST(TextTableTest, RowsStandByThemselvesWhereNothingMayGo) {
  TextTable table({{"model"}, {"parameters", Align::kRight}, {"what"}});
  table.AddRow({"bert-large", "340,000,000", "24 layers, hidden 1024"});
  table.AddRule();
  table.AddRow({"gpt", "", "12 layers"});
  EXPECT_EQ(table.Print({.width = 28}),
            "model bert-large\n"
            "  parameters  340,000,000\n"
            "  what        24 layers,\n"
            "              hidden 1024\n"
            "model gpt\n"
            "  what        12 layers\n");
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

RC_GTEST_PROP(TextTableTest, LinesKeepToTheWidthAndWordsStayWhole, ()) {
  const int width = *rc::gen::inRange(30, 80);
  TextTable table({{"one"}, {"two", Align::kRight}, {"three", Align::kLeft, 1}, {"four"}});
  std::vector<std::string> words;
  const auto sentence = [&] {
    std::string text;
    for (int k = *rc::gen::inRange(1, 8); k > 0; --k) {
      const std::string one(static_cast<size_t>(*rc::gen::inRange(1, 12)),
                            static_cast<char>(*rc::gen::inRange<int>('a', 'z')));
      words.push_back(one);
      text += (text.empty() ? "" : " ") + one;
    }
    return text;
  };
  const int rows = *rc::gen::inRange(0, 6);
  for (int r = 0; r < rows; ++r) {
    table.AddRow({sentence(), std::to_string(*rc::gen::inRange(0, 1000)), "x", sentence()});
  }
  const std::string text = table.Print({.width = width});
  for (const std::string_view line : SplitAt(text, '\n')) {
    RC_ASSERT(DisplayWidth(line) <= width);
    RC_ASSERT(!line.ends_with(' '));
  }
  for (const std::string& one : words) RC_ASSERT(text.find(one) != std::string::npos);
}

}  // namespace
}  // namespace heddle
