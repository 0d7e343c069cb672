#include "run/meet/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "run/meet/descriptor.h"

namespace heddle {
namespace {

constexpr size_t kLeastLength = 16, kMostLength = 4096;
constexpr const char* kHowToMake = "make one by head -c 32 /dev/urandom | base64";

// The library chooses its implementation once; it may be asked to again.
void Prepare() { HEDDLE_CHECK(sodium_init() >= 0); }

const unsigned char* Unsigned(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Result<std::optional<Secret>> Checked(std::string_view text, const std::string& where) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.size() < kLeastLength) {
    return BadInput(where, fmt::format("a secret of {} characters can be guessed", text.size()),
                    fmt::format("at least {}: {}", kLeastLength, kHowToMake));
  }
  if (text.size() > kMostLength) {
    return BadInput(where, fmt::format("is longer than {} characters", kMostLength), kHowToMake);
  }
  return std::optional(Secret::Of(text));
}

Result<std::string> ReadPrivately(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat state {};
  if (!file.valid() || fstat(file.get(), &state) != 0) {
    return BadInput(path, std::strerror(errno), "--secret-file is the secret's file");
  }
  if (!S_ISREG(state.st_mode)) return BadInput(path, "is no regular file");
  if ((state.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return BadInput(path, fmt::format("others may use it: its mode is {:o}", state.st_mode & 0777),
                    "chmod 600 " + path);
  }
  std::string text(kMostLength + 2, '\0');
  const ssize_t count = read(file.get(), text.data(), text.size());
  if (count < 0) return BadInput(path, std::strerror(errno));
  text.resize(static_cast<size_t>(count));
  return text;
}

}  // namespace

Secret::Bytes RandomBytes() {
  Prepare();
  Secret::Bytes bytes;
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

bool SameBytes(const Secret::Bytes& one, std::string_view other) {
  return other.size() == one.size() && sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

Secret Secret::Generate() { return Secret(RandomBytes()); }

Secret Secret::Of(std::string_view text) {
  Prepare();
  Bytes key;
  crypto_hash_sha256(key.data(), Unsigned(text), text.size());
  return Secret(key);
}

Secret::Bytes Secret::Tag(std::initializer_list<std::string_view> parts) const {
  static_assert(crypto_auth_hmacsha256_BYTES == kBytes);
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, key_.data(), key_.size());
  for (const std::string_view part : parts) {
    crypto_auth_hmacsha256_update(&state, Unsigned(part), part.size());
  }
  Bytes tag;
  crypto_auth_hmacsha256_final(&state, tag.data());
  return tag;
}

Secret Secret::Derive(std::initializer_list<std::string_view> parts) const {
  return Secret(Tag(parts));
}

Result<std::optional<Secret>> FindSecret(const char* variable, const std::string& file) {
  if (!file.empty()) {
    HEDDLE_ASSIGN(const std::string text, ReadPrivately(file));
    return Checked(text, file);
  }
  if (variable != nullptr) return Checked(variable, "HEDDLE_SECRET");
  return std::optional<Secret>();
}

}  // namespace heddle
