// Secret: what the processes of a run know and strangers do not. It comes from the environment or
// from a file that only its owner can read, never from a command line, which anybody can see.
//
//   HEDDLE_ASSIGN(const std::optional<Secret> secret, FindSecret(getenv("HEDDLE_SECRET"), ""));
//   secret->Tag({"client", nonce})      ->  32 bytes that only who knows the secret can make
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle {

class Secret {
 public:
  static constexpr size_t kBytes = 32;
  using Bytes = std::array<uint8_t, kBytes>;

  static Secret Generate();
  // The same for the same text.
  static Secret Of(std::string_view text);

  // HMAC-SHA-256 of the parts, one after the other. Parts whose lengths vary must say them.
  Bytes Tag(std::initializer_list<std::string_view> parts) const;
  // A key of its own for each purpose.
  Secret Derive(std::initializer_list<std::string_view> parts) const;

 private:
  explicit Secret(const Bytes& key) : key_(key) {}
  Bytes key_;
};

inline std::string_view TextOf(const Secret::Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// In the same time wherever they differ.
bool SameBytes(const Secret::Bytes& one, std::string_view other);

Secret::Bytes RandomBytes();

// `variable` is the value of HEDDLE_SECRET, or null; `file` a path, or "". The file counts where
// both are given. Nothing if neither is. What is too short to be a secret is refused, and so is a
// file that others may read.
Result<std::optional<Secret>> FindSecret(const char* variable, const std::string& file);

}  // namespace heddle
