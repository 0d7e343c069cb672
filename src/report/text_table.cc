#include "report/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "report/text_width.h"

namespace heddle {
namespace {

constexpr int kGap = 2;             // spaces between columns
constexpr int kReadableWidth = 24;  // text is set as narrow as this before a column is left out
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

int LongestWordOf(std::string_view text) {
  int longest = 0;
  for (const std::string_view word : SplitWords(text)) {
    longest = std::max(longest, DisplayWidth(word));
  }
  return longest;
}

// The lines of a cell; a number is one line.
std::vector<std::string> LinesOf(const std::string& cell, Align align, int width) {
  if (align == Align::kRight || DisplayWidth(cell) <= width) return {cell};
  const std::string wrapped = Wrapped(cell, width);
  std::vector<std::string> lines;
  for (const std::string_view line : SplitAt(wrapped, '\n')) lines.emplace_back(line);
  lines.pop_back();  // after the last newline
  return lines;
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

int TextTable::Natural(size_t column) const {
  int width = DisplayWidth(columns_[column].title);
  for (const Row& row : rows_) {
    if (!row.cells.empty()) width = std::max(width, DisplayWidth(row.cells[column]));
  }
  return width;
}

// Titles stay on one line.
int TextTable::LongestWord(size_t column) const {
  int width = DisplayWidth(columns_[column].title);
  for (const Row& row : rows_) {
    if (!row.cells.empty()) width = std::max(width, LongestWordOf(row.cells[column]));
  }
  return width;
}

// The widest texts narrowed until the columns fit, none below `least` or its longest word. Nothing:
// they do not fit.
std::optional<std::vector<int>> TextTable::Widths(const std::vector<size_t>& columns, int limit,
                                                  int least) const {
  std::vector<int> widths, floors;
  for (const size_t c : columns) {
    widths.push_back(Natural(c));
    const bool text = columns_[c].align == Align::kLeft;
    floors.push_back(text ? std::min(widths.back(), std::max(least, LongestWord(c)))
                          : widths.back());
  }
  if (limit <= 0) return widths;
  int excess = std::accumulate(widths.begin(), widths.end(),
                               kGap * (static_cast<int>(widths.size()) - 1) - limit);
  for (; excess > 0; --excess) {
    int* widest = nullptr;
    for (size_t k = 0; k < widths.size(); ++k) {
      if (widths[k] == floors[k]) continue;
      if (widest == nullptr || widths[k] > *widest) widest = &widths[k];
    }
    if (widest == nullptr) return std::nullopt;
    --*widest;
  }
  return widths;
}

TextTable::Setting TextTable::Set(int limit) const {
  std::vector<size_t> columns(columns_.size());
  std::iota(columns.begin(), columns.end(), 0);
  for (;;) {
    if (auto widths = Widths(columns, limit, kReadableWidth)) return {columns, *widths};
    const auto first = std::max_element(columns.begin(), columns.end(), [&](size_t a, size_t b) {
      return columns_[a].spare < columns_[b].spare;
    });
    if (columns_[*first].spare == 0) break;
    columns.erase(first);
  }
  if (auto widths = Widths(columns, limit, 0)) return {columns, *widths};
  return {};
}

std::string TextTable::Lines(const std::vector<std::string>& cells, const Setting& setting,
                             std::string_view colour) const {
  std::vector<std::vector<std::string>> parts;
  size_t height = 1;
  for (size_t k = 0; k < setting.columns.size(); ++k) {
    const size_t c = setting.columns[k];
    parts.push_back(LinesOf(cells[c], columns_[c].align, setting.widths[k]));
    height = std::max(height, parts.back().size());
  }
  std::string out;
  for (size_t l = 0; l < height; ++l) {
    std::string line;
    for (size_t k = 0; k < parts.size(); ++k) {
      if (k > 0) line.append(kGap, ' ');
      const std::string part = l < parts[k].size() ? parts[k][l] : "";
      const bool left = columns_[setting.columns[k]].align == Align::kLeft;
      line += left ? PaddedRight(part, setting.widths[k]) : PaddedLeft(part, setting.widths[k]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += Painted(colour, line) + "\n";
  }
  return out;
}

std::string TextTable::Stacked(const TableStyle& style) const {
  int titles = 0;
  for (size_t c = 1; c < columns_.size(); ++c) {
    titles = std::max(titles, DisplayWidth(columns_[c].title));
  }
  std::string out;
  for (const Row& row : rows_) {
    if (row.cells.empty()) continue;
    const std::string_view colour = style.colour ? kToneColours[static_cast<size_t>(row.tone)] : "";
    if (!row.cells[0].empty()) {
      const std::string title = columns_[0].title.empty() ? "" : columns_[0].title + " ";
      const std::string head = Wrapped(title + row.cells[0], style.width, kGap);
      out += Painted(colour, head.substr(0, head.size() - 1)) + "\n";
    }
    for (size_t c = 1; c < columns_.size(); ++c) {
      if (row.cells[c].empty()) continue;
      const int indent = kGap + titles + kGap;
      const std::string value = Wrapped(row.cells[c], style.width - indent);
      std::string head = "  " + PaddedRight(columns_[c].title, titles) + "  ";
      for (const std::string_view line :
           SplitAt(std::string_view(value).substr(0, value.size() - 1), '\n')) {
        out += head + std::string(line) + "\n";
        head.assign(static_cast<size_t>(indent), ' ');
      }
    }
  }
  return out;
}

// "With COLUMNS=96 or --json also: sent, received."
std::string TextTable::LeftOut(const Setting& setting, int limit) const {
  std::vector<std::string> titles;
  int whole = kGap * (static_cast<int>(columns_.size()) - 1);
  for (size_t c = 0; c < columns_.size(); ++c) {
    whole += columns_[c].align == Align::kRight
                 ? Natural(c)
                 : std::min(Natural(c), std::max(kReadableWidth, LongestWord(c)));
    if (std::find(setting.columns.begin(), setting.columns.end(), c) == setting.columns.end()) {
      titles.push_back(columns_[c].title);
    }
  }
  if (titles.empty()) return "";
  return Wrapped(fmt::format("With COLUMNS={} or --json also: {}.", whole, Join(titles, ", ")),
                 limit);
}

std::string TextTable::Print(const TableStyle& style) const {
  const Setting setting = Set(style.width);
  if (setting.columns.empty()) return Stacked(style);
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const std::string rule = RuleLine(setting.widths) + "\n";
  std::string out = Lines(titles, setting, style.colour ? kTitleColour : "") + rule;
  for (const Row& row : rows_) {
    const std::string_view colour = style.colour ? kToneColours[static_cast<size_t>(row.tone)] : "";
    out += row.cells.empty() ? rule : Lines(row.cells, setting, colour);
  }
  return out + LeftOut(setting, style.width);
}

}  // namespace heddle
