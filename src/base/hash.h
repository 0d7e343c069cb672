// Hash: 64-bit FNV-1a, to notice an edited file. Not for security.
//
//   Hash hash;  hash.Add("gpt");  hash.Add(12);  hash.Hex()  ->  "9b1c…" (16 digits)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

class Hash {
 public:
  void Add(std::string_view text);
  void Add(int64_t number);
  void Add(double number);
  // A text in parts: Add(text) is AddPart of its parts, then Add of its size in bytes.
  void AddPart(std::string_view part);
  uint64_t value() const { return state_; }
  std::string Hex() const;

 private:
  uint64_t state_ = 14695981039346656037ULL;
};

std::string HashOf(std::string_view text);

}  // namespace heddle
