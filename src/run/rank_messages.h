// RankMessages: small talk among the devices of a run, beside the Program: what to do next, losses,
// tensors to save. All ranks call the same function at the same time.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "run/communicator.h"

namespace heddle {

using ByteString = std::vector<std::byte>;

// Programs have smaller tags.
inline constexpr int32_t kFirstControlTag = 1 << 30;

class RankMessages {
 public:
  RankMessages(Communicator& communicator, int32_t rank, int32_t size)
      : communicator_(communicator), rank_(rank), size_(size) {}

  int32_t rank() const { return rank_; }
  bool is_first() const { return rank_ == 0; }

  // Everyone gets what the first rank has.
  ByteString FromFirst(ByteString mine);
  // The first rank gets what everyone has, in the order of ranks; the others get nothing.
  std::vector<ByteString> ToFirst(ByteString mine);

 private:
  void Send(int32_t peer, ByteString& bytes);
  ByteString Receive(int32_t peer);

  Communicator& communicator_;
  int32_t rank_, size_;
};

template <class T>
ByteString ToBytes(const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  ByteString bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> FromBytes(const ByteString& bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// One value, and nothing else: another process may be broken.
template <class T>
T OneFromBytes(const ByteString& bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() != sizeof(T)) throw PeerLost("a device sent something else than was agreed");
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace heddle
