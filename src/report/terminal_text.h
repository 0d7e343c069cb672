// Terminal text: what is printed for people, made to fit where it is read.
//
//   const TerminalKind kind = TerminalKindOf(STDOUT_FILENO);
//   fmt::print("{}", ForTerminal("planning 1f1b …\n", kind));
//
// Lines wider than the terminal go on in the next, between words. Where the locale's characters are
// not UTF-8 each other character has a stand-in of the same width, so that tables stay aligned;
// only what stands in sentences alone (≤, ≥) may take more.
#pragma once

#include <string>
#include <string_view>

namespace heddle {

enum class Charset { kUtf8, kAscii };

struct TerminalKind {
  int width = 80;
  Charset charset = Charset::kUtf8;
  bool colour = false;  // the text has escape sequences for it
};

// What the environment says: COLUMNS, else what the file descriptor is, else 80 columns; and of
// LC_ALL, LC_CTYPE and LANG the first that is set. Where none is, UTF-8: many containers set none.
TerminalKind TerminalKindOf(int descriptor);

// The same of given values; null is unset, and `columns` of a terminal 0 where there is none.
TerminalKind TerminalKindFrom(const char* columns_variable, int columns, const char* locale);

// Lines wider than `width` continued: under their second column where they have one (a run of two
// spaces or more ends the first), else two further in than they began. A command is continued as a
// shell wants it. Words stay whole; colours take no room. width <= 0: no limit.
std::string FittedLines(std::string_view text, int width);

std::string InCharset(std::string_view text, Charset charset);

// Both, and whatever else would steer a terminal is shown instead: names come from files.
std::string ForTerminal(std::string_view text, const TerminalKind& kind);

}  // namespace heddle
