// TextTable: columns for a terminal, as compare, explain and models print them.
//
//   TextTable table({{"strategy"}, {"iteration", Align::kRight}});
//   table.AddRow({"pipeline", "41.0 ms"}, Tone::kGood);
//   table.AddRow({"gpipe", "118 ms"});
//   fmt::print("{}", table.Print({.colour = true, .width = 80}));
//
//   strategy  iteration
//   ────────  ─────────
//   pipeline    41.0 ms
//   gpipe        118 ms
//
// Cells are UTF-8 text without colours. No line ends in spaces; every line ends in a newline.
// Words stay whole and numbers too. Where the table is wider than asked, in this order: its
// left-aligned cells go on in further lines; columns that may go do, and a last line names them;
// each row stands by itself, a cell to a line:
//
//   name bert-large
//     parameters  335,174,458
//     about       24 layers, hidden 1024, 16 heads
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct TableStyle {
  bool colour = false;
  int width = 0;  // of the terminal; 0: no limit
};

enum class Align : uint8_t { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  int spare = 0;  // where there is no room the columns with the largest number go first; 0 stays
};

// What a row says, seen only in colour: the text must say it too.
enum class Tone : uint8_t { kPlain, kGood, kBad, kFaint };

class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns);

  // REQUIRES: at most as many cells as columns; missing ones are empty.
  void AddRow(std::vector<std::string> cells, Tone tone = Tone::kPlain);
  void AddRule();  // a line between two rows

  int row_count() const { return static_cast<int>(rows_.size()); }
  std::string Print(const TableStyle& style) const;

 private:
  struct Row {
    std::vector<std::string> cells;  // none: a rule
    Tone tone = Tone::kPlain;
  };

  // How the table is set: the columns shown, how wide each is; none of them: row by row.
  struct Setting {
    std::vector<size_t> columns;
    std::vector<int> widths;
  };

  int Natural(size_t column) const;
  int LongestWord(size_t column) const;
  std::optional<std::vector<int>> Widths(const std::vector<size_t>& columns, int limit,
                                         int least) const;
  Setting Set(int limit) const;
  std::string Lines(const std::vector<std::string>& cells, const Setting& setting,
                    std::string_view colour) const;
  std::string Stacked(const TableStyle& style) const;
  std::string LeftOut(const Setting& setting, int limit) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace heddle
