#include "run/rank_messages.h"

namespace heddle {

void RankMessages::Send(int32_t peer, ByteString& bytes) {
  uint64_t size = bytes.size();
  communicator_
      .Send(peer, kFirstControlTag, {nullptr, reinterpret_cast<std::byte*>(&size), sizeof size})
      ->Wait();
  communicator_.Send(peer, kFirstControlTag + 1, {nullptr, bytes.data(), bytes.size()})->Wait();
}

ByteString RankMessages::Receive(int32_t peer) {
  uint64_t size = 0;
  communicator_
      .Receive(peer, kFirstControlTag, {nullptr, reinterpret_cast<std::byte*>(&size), sizeof size})
      ->Wait();
  ByteString bytes(size);
  communicator_.Receive(peer, kFirstControlTag + 1, {nullptr, bytes.data(), bytes.size()})->Wait();
  return bytes;
}

ByteString RankMessages::FromFirst(ByteString mine) {
  if (!is_first()) return Receive(0);
  for (int32_t peer = 1; peer < size_; ++peer) Send(peer, mine);
  return mine;
}

std::vector<ByteString> RankMessages::ToFirst(ByteString mine) {
  if (!is_first()) {
    Send(0, mine);
    return {};
  }
  std::vector<ByteString> all = {std::move(mine)};
  for (int32_t peer = 1; peer < size_; ++peer) all.push_back(Receive(peer));
  return all;
}

}  // namespace heddle
