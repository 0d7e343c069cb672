// TextSource: the text a language model of the lab learns, as numbers of its alphabet.
//
//   HEDDLE_ASSIGN(const TextSource text, TextSource::Of(contents, "shakespeare.txt"));
//   text.symbols[k]                                  0 … text.alphabet - 1
//
// A symbol is a byte that occurs in the text, in order of value. The last tenth is held out:
// training never reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle {

struct TextSource {
  std::vector<uint8_t> symbols;
  int64_t alphabet = 0;
  int64_t training = 0;  // the first so many symbols; the others are held out

  // `where` names the text in errors; windows of `window` symbols must fit into either part.
  static Result<TextSource> Of(std::string_view contents, const std::string& where, int64_t window);
};

// A text with structure to learn, always the same: 60 made words, each followed by a few others
// only, in sentences of some 8 words. 20 different characters.
std::string MadeText(int64_t length);

}  // namespace heddle
