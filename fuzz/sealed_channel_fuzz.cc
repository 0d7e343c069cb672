// A stranger who says anything to a server, and a server who says anything to a client, in pieces
// of any size: neither conversation ever opens.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "run/meet/sealed_channel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t piece = 1 + data[0] % 64;
  using heddle::SealedChannel;
  const heddle::Secret secret = heddle::Secret::Of("nobody says this");
  for (const auto side : {SealedChannel::Side::kServer, SealedChannel::Side::kClient}) {
    SealedChannel channel(side, secret, heddle::Secret::Bytes{1, 2, 3});
    for (size_t at = 0; at < bytes.size(); at += piece) {
      if (!channel.Receive(bytes.substr(at, piece)).ok()) break;
    }
    HEDDLE_CHECK(!channel.open() && !channel.NextMessage());
    HEDDLE_CHECK(channel.outgoing().size() <= 4 * heddle::Secret::kBytes);
  }
  return 0;
}
