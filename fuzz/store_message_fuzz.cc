// Messages to and from the store: whatever parses is within its limits, is the same once printed,
// and does no harm to a table.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "run/meet/store_message.h"
#include "run/meet/store_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto reply = heddle::ParseReply(bytes); reply.ok()) {
    HEDDLE_CHECK(heddle::PrintReply(reply.value()) == bytes);
  }
  const auto request = heddle::ParseRequest(bytes);
  if (!request.ok()) return 0;
  HEDDLE_CHECK(heddle::PrintRequest(request.value()) == bytes);
  HEDDLE_CHECK(request.value().keys.size() <= heddle::StoreLimits::kKeysAtOnce);
  for (const std::string& key : request.value().keys) {
    HEDDLE_CHECK(key.size() <= heddle::StoreLimits::kKeyBytes);
  }
  if (request.value().op == heddle::StoreOp::kWill) return 0;
  heddle::StoreTable table;
  table.SetIfAbsent("n", "7");
  for (int k = 0; k < 2; ++k) {
    const auto reply = table.Apply(request.value());
    HEDDLE_CHECK(reply || request.value().op == heddle::StoreOp::kWait);
  }
  return 0;
}
