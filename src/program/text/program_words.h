// Words of one line of Program text, read from left to right with errors that name the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle {

class LineWords {
 public:
  // Splits at spaces; "quoted text" is one word without its quotes; "//" starts a comment.
  LineWords(std::string_view line, std::string where);

  bool done() const { return at_ >= words_.size(); }
  bool NextIs(std::string_view word) const { return !done() && words_[at_] == word; }
  std::string_view Peek() const { return done() ? std::string_view() : words_[at_]; }
  std::string_view Take() { return words_[at_++]; }  // REQUIRES: !done()

  // Consumes the word if it is next.
  bool Accept(std::string_view word);

  Result<std::string_view> Word(std::string_view expected);
  Result<int64_t> Integer(std::string_view expected, int64_t least, int64_t most);
  Status Expect(std::string_view word);
  Status End() const;  // nothing is left, and every quote was closed

  Error Bad(std::string what, std::string hint = "") const;

 private:
  std::vector<std::string_view> words_;
  size_t at_ = 0;
  bool unterminated_ = false;
  std::string where_;
};

// An identifier of the text form: letters, digits, '_' and '.', not starting with a digit.
bool IsProgramName(std::string_view name);

}  // namespace heddle
