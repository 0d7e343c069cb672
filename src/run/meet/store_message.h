// What processes that meet say to the store and hear from it, as bytes.
//
//   PrintRequest({.op = StoreOp::kSet, .keys = {"beat3"}, .value = "17 0 250"})
//   ParseRequest(bytes)    ->  the same, or what is wrong with the bytes
//
// Whatever the bytes are, parsing takes no more memory than they do, and nothing that it returns is
// larger than StoreLimits say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace heddle {

struct StoreLimits {
  static constexpr size_t kKeyBytes = 512;
  static constexpr size_t kKeysAtOnce = 4096;     // of one request
  static constexpr size_t kValueBytes = 4 << 20;  // Gloo's grow with the number of devices
  static constexpr size_t kMessageBytes = 8 << 20;
  static constexpr size_t kKeys = 1 << 20;        // in the store
  static constexpr size_t kStoreBytes = 1 << 29;  // of all keys and values
};

enum class StoreOp : uint8_t {
  kSet,         // keys[0] becomes value
  kCompareSet,  // the same, if it is `expected` now, or absent where that is empty; tells what it
                // is
  kGet,         // tells keys[0]; kNo if it is absent
  kAdd,         // adds `number` to keys[0], a number, 0 if absent; tells the sum
  kCheck,       // are all keys there? kDone or kNo
  kWait,        // until they are, or for `number` milliseconds: kDone or kTimedOut
  kDelete,      // was keys[0] there? kDone or kNo
  kCount,       // tells how many keys there are
  kWill,        // keys[0] becomes value when this connection breaks, unless it is there by then; no
                // key: nothing does any more
};
inline constexpr int kStoreOps = 9;

struct StoreRequest {
  StoreOp op = StoreOp::kGet;
  std::vector<std::string> keys = {};
  std::string value = {};
  std::string expected = {};
  int64_t number = 0;

  bool operator==(const StoreRequest&) const = default;
};

enum class StoreAnswer : uint8_t { kDone, kNo, kTimedOut, kRefused };
inline constexpr int kStoreAnswers = 4;

struct StoreReply {
  StoreAnswer answer = StoreAnswer::kDone;
  std::string value = {};  // of kRefused: why
  int64_t number = 0;

  bool operator==(const StoreReply&) const = default;
};

std::string PrintRequest(const StoreRequest& request);
std::string PrintReply(const StoreReply& reply);
Result<StoreRequest> ParseRequest(std::string_view bytes);
Result<StoreReply> ParseReply(std::string_view bytes);

}  // namespace heddle
