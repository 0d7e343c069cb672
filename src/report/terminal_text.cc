#include "report/terminal_text.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/text.h"
#include "report/text_width.h"

namespace heddle {
namespace {

constexpr int kUnknownWidth = 80;
constexpr int kLeastWidth = 20;    // narrower ones are a mistake
constexpr int kWidestUsed = 160;   // of a terminal; sentences of more are hard to read
constexpr int kMostWidth = 10000;  // of COLUMNS, which asks for what it says

constexpr auto kStandIns = std::to_array<std::pair<std::string_view, std::string_view>>({
    // Tables and charts.
    {"─", "-"},
    {"═", "="},
    {"│", "|"},
    {"└", "+"},
    {"┘", "+"},
    {"┬", "+"},
    {"┤", "|"},
    {"├", "|"},
    {"·", "."},
    {"⋮", ":"},
    {"░", ":"},
    {"▒", "%"},
    {"▓", "#"},
    {"█", "@"},
    {"▁", "_"},
    {"▂", "."},
    {"▃", "-"},
    {"▄", "="},
    {"▅", "+"},
    {"▆", "*"},
    {"▇", "%"},
    // Words and formulas.
    {"…", "~"},
    {"→", ">"},
    {"×", "x"},
    {"–", "-"},
    {"—", "-"},
    {"−", "-"},
    {"±", "~"},
    {"²", "2"},
    {"³", "3"},
    {"‖", "|"},
    {"⌊", "["},
    {"⌋", "]"},
    {"Δ", "D"},
    {"Σ", "S"},
    {"γ", "c"},
    {"δ", "d"},
    {"σ", "s"},
    {"∇", "D"},
    {"√", "r"},
    {"≈", "~"},
    {"≤", "<="},
    {"≥", ">="},
});

// An escape sequence at the start of the text, of colours; how long it is.
size_t EscapeLength(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;", 2);
  return end == std::string_view::npos || text[end] != 'm' ? 0 : end + 1;
}

// Nothing steers the terminal but lines, tabs and, where they are ours, colours.
std::string Shown(std::string_view text, bool colour) {
  std::string out;
  while (!text.empty()) {
    const size_t escape = colour ? EscapeLength(text) : 0;
    const size_t next =
        escape > 0 ? escape : std::min(colour ? text.find('\x1b', 1) : text.npos, text.size());
    const std::string_view part = text.substr(0, next);
    out += escape > 0 ? std::string(part) : Printable(part, "\n\t");
    text.remove_prefix(next);
  }
  return out;
}

int VisibleWidth(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    if (const size_t escape = EscapeLength(text)) {
      text.remove_prefix(escape);
      continue;
    }
    const size_t next = std::min(text.find('\x1b', 1), text.size());
    width += DisplayWidth(text.substr(0, next));
    text.remove_prefix(next);
  }
  return width;
}

// Where the continuation of a line begins, and how much of the line stays as it is before it.
struct Hang {
  size_t kept = 0;  // bytes
  int column = 0;
};

Hang HangOf(std::string_view line, int width) {
  const size_t start = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", start);
  if (gap != std::string_view::npos) {
    const size_t second = line.find_first_not_of(' ', gap);
    const int column = VisibleWidth(line.substr(0, second));
    if (second != std::string_view::npos && column <= width / 2) return {second, column};
  }
  constexpr size_t kDeep = 8;  // a second column already
  const size_t further = start >= kDeep ? 0 : 2;
  return {start, static_cast<int>(start + further)};
}

bool IsCommand(std::string_view line) { return line.starts_with("  heddle "); }

std::string Broken(std::string_view line, int width) {
  const Hang hang = HangOf(line, width);
  const std::string_view end = IsCommand(line) ? " \\" : "";
  const int room = width - static_cast<int>(end.size());
  std::string out(line.substr(0, hang.kept));
  int column = VisibleWidth(out);
  bool first = true;
  for (const std::string_view word : SplitWords(line.substr(hang.kept))) {
    const int needed = VisibleWidth(word);
    if (!first && column + 1 + needed > room) {
      out += std::string(end) + "\n" + std::string(static_cast<size_t>(hang.column), ' ');
      column = hang.column;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += needed;
    first = false;
  }
  return out;
}

}  // namespace

TerminalKind TerminalKindFrom(const char* columns_variable, int columns, const char* locale) {
  TerminalKind kind;
  const auto asked = columns_variable == nullptr ? std::nullopt : ParseInteger(columns_variable);
  if (asked && *asked >= kLeastWidth) {
    kind.width = static_cast<int>(std::min<int64_t>(*asked, kMostWidth));
  } else {
    kind.width = columns >= kLeastWidth ? std::min(columns, kWidestUsed) : kUnknownWidth;
  }
  std::string name = locale == nullptr ? "utf-8" : locale;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const bool utf8 =
      name.find("utf-8") != std::string::npos || name.find("utf8") != std::string::npos;
  kind.charset = utf8 ? Charset::kUtf8 : Charset::kAscii;
  return kind;
}

TerminalKind TerminalKindOf(int descriptor) {
  const char* locale = nullptr;
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (locale == nullptr && value != nullptr && *value != '\0') locale = value;
  }
  winsize size{};
  const bool terminal = ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  return TerminalKindFrom(std::getenv("COLUMNS"), terminal ? size.ws_col : 0, locale);
}

std::string FittedLines(std::string_view text, int width) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    out += width > 0 && VisibleWidth(line) > width ? Broken(line, width) : std::string(line);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string InCharset(std::string_view text, Charset charset) {
  if (charset == Charset::kUtf8) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t bytes = FirstCharacterBytes(text);
    const std::string_view character = text.substr(0, bytes);
    const auto known = std::find_if(kStandIns.begin(), kStandIns.end(),
                                    [&](const auto& pair) { return pair.first == character; });
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      out += character;
    } else if (known != kStandIns.end()) {
      out += known->second;
    } else {
      out.append(static_cast<size_t>(DisplayWidth(character)), '?');
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string ForTerminal(std::string_view text, const TerminalKind& kind) {
  return InCharset(FittedLines(Shown(text, kind.colour), kind.width), kind.charset);
}

}  // namespace heddle
