#include "report/text_table.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "report/text_width.h"

namespace heddle {
namespace {

constexpr int kGap = 2;            // spaces between columns
constexpr int kLeastCutWidth = 6;  // a cut column still shows five characters
constexpr std::string_view kTitleColour = "1";
constexpr std::array<std::string_view, 4> kToneColours = {"", "32", "31", "2"};

std::string RuleLine(const std::vector<int>& widths) {
  std::string line;
  for (const int width : widths) {
    if (!line.empty()) line.append(kGap, ' ');
    for (int i = 0; i < width; ++i) line += "─";
  }
  return line;
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  HEDDLE_CHECK(!columns_.empty());
}

void TextTable::AddRow(std::vector<std::string> cells, Tone tone) {
  HEDDLE_CHECK(cells.size() <= columns_.size());
  for (std::string& cell : cells) cell = WithoutControls(cell);
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), tone});
}

void TextTable::AddRule() { rows_.push_back({}); }

// Of each column: its widest cell, and then the widest left-aligned ones cut down to the limit.
std::vector<int> TextTable::Widths(int limit) const {
  std::vector<int> widths;
  for (const Column& column : columns_) widths.push_back(DisplayWidth(column.title));
  for (const Row& row : rows_) {
    for (size_t c = 0; c < row.cells.size(); ++c) {
      widths[c] = std::max(widths[c], DisplayWidth(row.cells[c]));
    }
  }
  if (limit <= 0) return widths;
  int excess = kGap * (static_cast<int>(widths.size()) - 1) - limit;
  for (const int width : widths) excess += width;
  for (; excess > 0; --excess) {
    int* widest = nullptr;
    for (size_t c = 0; c < widths.size(); ++c) {
      if (columns_[c].align != Align::kLeft || widths[c] <= kLeastCutWidth) continue;
      if (widest == nullptr || widths[c] > *widest) widest = &widths[c];
    }
    if (widest == nullptr) break;
    --*widest;
  }
  return widths;
}

std::string TextTable::Line(const std::vector<std::string>& cells,
                            const std::vector<int>& widths) const {
  std::string line;
  for (size_t c = 0; c < cells.size(); ++c) {
    if (c > 0) line.append(kGap, ' ');
    const std::string cell = widths[c] > 0 ? Fitted(cells[c], widths[c]) : "";
    line += columns_[c].align == Align::kLeft ? PaddedRight(cell, widths[c])
                                              : PaddedLeft(cell, widths[c]);
  }
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

std::string TextTable::Print(const TableStyle& style) const {
  const std::vector<int> widths = Widths(style.width);
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string out = Painted(style.colour ? kTitleColour : "", Line(titles, widths)) + "\n" +
                    RuleLine(widths) + "\n";
  for (const Row& row : rows_) {
    const std::string_view colour = style.colour ? kToneColours[static_cast<size_t>(row.tone)] : "";
    out += row.cells.empty() ? RuleLine(widths) : Painted(colour, Line(row.cells, widths));
    out += "\n";
  }
  return out;
}

}  // namespace heddle
