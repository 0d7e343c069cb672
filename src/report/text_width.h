// Text on a terminal: how many columns it takes, cut, padded and wrapped to a number of them.
//
//   DisplayWidth("a→b")             ->  3     (five bytes)
//   Fitted("bert-large", 6)         ->  "bert-…"
//   PaddedRight("a→b", 5)           ->  "a→b  "
//   PaddedLeft("7.5 ms", 8)         ->  "  7.5 ms"
//
// Text is UTF-8. Wide characters (Chinese, Korean, emoji) take two columns, combining marks none;
// a byte that is not UTF-8 counts as one. Escape sequences are not understood: colour comes last.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heddle {

int DisplayWidth(std::string_view text);

// How many bytes the first character has. REQUIRES: text is not empty.
size_t FirstCharacterBytes(std::string_view text);

// The whole text, or its beginning and "…": at most `width` columns. REQUIRES: width >= 1.
std::string Fitted(std::string_view text, int width);

// With spaces up to `width` columns; longer text is left as it is.
std::string PaddedRight(std::string_view text, int width);
std::string PaddedLeft(std::string_view text, int width);

// Breaks a paragraph between words so that no line is wider than `width`; lines after the first
// begin with `indent` spaces. A longer word stands alone. width <= 0: no limit. Ends in a newline.
std::string Wrapped(std::string_view text, int width, int indent = 0);

// Control characters become spaces, so that a name cannot break a table or steer the terminal.
std::string WithoutControls(std::string_view text);

// An ANSI colour around a text: Painted("31", "no") is red. Text without visible characters, or an
// empty code, stays bare.
std::string Painted(std::string_view code, std::string_view text);

}  // namespace heddle
