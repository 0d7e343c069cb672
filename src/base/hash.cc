#include "base/hash.h"

#include <fmt/format.h>

#include <bit>

namespace heddle {

void Hash::AddPart(std::string_view part) {
  uint64_t state = state_;
  for (const char c : part) state = (state ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  state_ = state;
}

void Hash::Add(std::string_view text) {
  AddPart(text);
  Add(static_cast<int64_t>(text.size()));  // so that "ab","c" differs from "a","bc"
}

void Hash::Add(int64_t number) {
  for (int byte = 0; byte < 8; ++byte) {
    state_ = (state_ ^ static_cast<uint64_t>((number >> (8 * byte)) & 0xff)) * 1099511628211ULL;
  }
}

void Hash::Add(double number) { Add(std::bit_cast<int64_t>(number)); }

std::string Hash::Hex() const { return fmt::format("{:016x}", state_); }

std::string HashOf(std::string_view text) {
  Hash hash;
  hash.Add(text);
  return hash.Hex();
}

}  // namespace heddle
