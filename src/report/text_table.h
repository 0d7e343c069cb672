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
// Where the table is wider than asked, its widest left-aligned column is cut ("bert-la…"); numbers
// are never cut, so a table of numbers alone may stay too wide.
#pragma once

#include <cstdint>
#include <string>
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

  std::vector<int> Widths(int limit) const;
  std::string Line(const std::vector<std::string>& cells, const std::vector<int>& widths) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace heddle
