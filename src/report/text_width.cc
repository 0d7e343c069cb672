#include "report/text_width.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "base/check.h"
#include "base/text.h"

namespace heddle {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// Sorted. Marks that sit on the character before them, and characters without a picture.
constexpr auto kNoColumn = std::to_array<Range>({
    {0x0300, 0x036F},
    {0x0483, 0x0489},
    {0x0591, 0x05BD},
    {0x064B, 0x065F},
    {0x1AB0, 0x1AFF},
    {0x1DC0, 0x1DFF},
    {0x200B, 0x200F},
    {0x202A, 0x202E},
    {0x2060, 0x2064},
    {0x20D0, 0x20FF},
    {0xFE00, 0xFE0F},
    {0xFE20, 0xFE2F},
    {0xFEFF, 0xFEFF},
    {0xE0100, 0xE01EF},
});

// Sorted. East Asian Width W and F (Unicode Standard Annex 11), by block.
constexpr auto kTwoColumns = std::to_array<Range>({
    {0x1100, 0x115F},
    {0x2E80, 0x303E},
    {0x3041, 0x33FF},
    {0x3400, 0x4DBF},
    {0x4E00, 0xA4CF},
    {0xA960, 0xA97C},
    {0xAC00, 0xD7A3},
    {0xF900, 0xFAFF},
    {0xFE30, 0xFE6F},
    {0xFF00, 0xFF60},
    {0xFFE0, 0xFFE6},
    {0x1F300, 0x1F64F},
    {0x1F680, 0x1F6FF},
    {0x1F900, 0x1F9FF},
    {0x20000, 0x3FFFD},
});

template <size_t N>
bool Contains(const std::array<Range, N>& ranges, uint32_t code) {
  const auto above = std::upper_bound(ranges.begin(), ranges.end(), code,
                                      [](uint32_t c, const Range& r) { return c < r.first; });
  return above != ranges.begin() && code <= std::prev(above)->last;
}

struct Character {
  size_t bytes;
  int width;
};

// REQUIRES: text is not empty.
Character FirstCharacter(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {1, lead < 0x20 || lead == 0x7F ? 0 : 1};
  const size_t bytes = lead >= 0xF0 && lead < 0xF8   ? 4
                       : lead >= 0xE0 && lead < 0xF0 ? 3
                       : lead >= 0xC2 && lead < 0xE0 ? 2
                                                     : 1;
  if (bytes == 1 || bytes > text.size()) return {1, 1};
  uint32_t code = lead & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {1, 1};
    code = (code << 6) | (next & 0x3FU);
  }
  if (Contains(kNoColumn, code)) return {bytes, 0};
  return {bytes, Contains(kTwoColumns, code) ? 2 : 1};
}

std::string Spaces(int count) { return std::string(static_cast<size_t>(std::max(0, count)), ' '); }

}  // namespace

size_t FirstCharacterBytes(std::string_view text) { return FirstCharacter(text).bytes; }

int DisplayWidth(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    width += character.width;
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string Fitted(std::string_view text, int width) {
  HEDDLE_CHECK(width >= 1);
  if (DisplayWidth(text) <= width) return std::string(text);
  size_t kept = 0;
  int used = 1;  // the ellipsis
  while (kept < text.size()) {
    const Character character = FirstCharacter(text.substr(kept));
    if (used + character.width > width) break;
    used += character.width;
    kept += character.bytes;
  }
  return std::string(text.substr(0, kept)) + "…";
}

std::string PaddedRight(std::string_view text, int width) {
  return std::string(text) + Spaces(width - DisplayWidth(text));
}

std::string PaddedLeft(std::string_view text, int width) {
  return Spaces(width - DisplayWidth(text)) + std::string(text);
}

std::string Wrapped(std::string_view text, int width, int indent) {
  std::string out;
  int column = 0;
  for (const std::string_view word : SplitWords(text)) {
    const int needed = DisplayWidth(word);
    const bool first = out.empty();
    if (!first && width > 0 && column + 1 + needed > width) {
      out += "\n" + Spaces(indent);
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += needed;
  }
  return out + "\n";
}

std::string WithoutControls(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return out;
}

std::string Painted(std::string_view code, std::string_view text) {
  if (code.empty() || text.find_first_not_of(' ') == std::string_view::npos) {
    return std::string(text);
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace heddle
