#include "run/meet/store_message.h"

#include <fmt/format.h>

namespace heddle {
namespace {

// Numbers are little-endian; a text is its length, in four bytes, and its bytes.
class ByteWriter {
 public:
  void Number(uint64_t value, int bytes) {
    for (int k = 0; k < bytes; ++k) bytes_.push_back(static_cast<char>(value >> (8 * k)));
  }
  void Text(const std::string& text) {
    Number(text.size(), 4);
    bytes_ += text;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  Result<uint64_t> Number(int bytes) {
    if (rest_.size() < static_cast<size_t>(bytes)) return Bad("ends in the middle of a number");
    uint64_t value = 0;
    for (int k = 0; k < bytes; ++k) {
      value |= uint64_t{static_cast<uint8_t>(rest_[static_cast<size_t>(k)])} << (8 * k);
    }
    rest_.remove_prefix(static_cast<size_t>(bytes));
    return value;
  }
  Result<std::string> Text(size_t most) {
    HEDDLE_ASSIGN(const uint64_t size, Number(4));
    if (size > most) return Bad(fmt::format("a text of {} bytes, of {} at most", size, most));
    if (size > rest_.size()) return Bad("ends in the middle of a text");
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  Status End() const { return rest_.empty() ? Ok() : Status(Bad("goes on after its end")); }

  static Error Bad(std::string what) { return BadInput("store message", std::move(what)); }

 private:
  std::string_view rest_;
};

struct KeyCount {
  size_t least, most;
};

// By StoreOp.
constexpr KeyCount kKeyCounts[kStoreOps] = {
    {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, StoreLimits::kKeysAtOnce}, {1, StoreLimits::kKeysAtOnce},
    {1, 1}, {0, 0}, {0, 1}};

}  // namespace

std::string PrintRequest(const StoreRequest& request) {
  ByteWriter writer;
  writer.Number(static_cast<uint8_t>(request.op), 1);
  writer.Number(static_cast<uint64_t>(request.number), 8);
  writer.Number(request.keys.size(), 2);
  for (const std::string& key : request.keys) writer.Text(key);
  writer.Text(request.value);
  writer.Text(request.expected);
  return writer.Take();
}

std::string PrintReply(const StoreReply& reply) {
  ByteWriter writer;
  writer.Number(static_cast<uint8_t>(reply.answer), 1);
  writer.Number(static_cast<uint64_t>(reply.number), 8);
  writer.Text(reply.value);
  return writer.Take();
}

Result<StoreRequest> ParseRequest(std::string_view bytes) {
  ByteReader reader(bytes);
  StoreRequest request;
  HEDDLE_ASSIGN(const uint64_t op, reader.Number(1));
  if (op >= kStoreOps) return ByteReader::Bad(fmt::format("asks for {}, which is nothing", op));
  request.op = static_cast<StoreOp>(op);
  HEDDLE_ASSIGN(const uint64_t number, reader.Number(8));
  request.number = static_cast<int64_t>(number);
  HEDDLE_ASSIGN(const uint64_t keys, reader.Number(2));
  const KeyCount count = kKeyCounts[op];
  if (keys < count.least || keys > count.most) {
    return ByteReader::Bad(fmt::format("names {} keys", keys));
  }
  for (uint64_t k = 0; k < keys; ++k) {
    HEDDLE_ASSIGN(std::string key, reader.Text(StoreLimits::kKeyBytes));
    request.keys.push_back(std::move(key));
  }
  HEDDLE_ASSIGN(request.value, reader.Text(StoreLimits::kValueBytes));
  HEDDLE_ASSIGN(request.expected, reader.Text(StoreLimits::kValueBytes));
  HEDDLE_RETURN_IF_ERROR(reader.End());
  return request;
}

Result<StoreReply> ParseReply(std::string_view bytes) {
  ByteReader reader(bytes);
  StoreReply reply;
  HEDDLE_ASSIGN(const uint64_t answer, reader.Number(1));
  if (answer >= kStoreAnswers) return ByteReader::Bad(fmt::format("answers {}", answer));
  reply.answer = static_cast<StoreAnswer>(answer);
  HEDDLE_ASSIGN(const uint64_t number, reader.Number(8));
  reply.number = static_cast<int64_t>(number);
  HEDDLE_ASSIGN(reply.value, reader.Text(StoreLimits::kValueBytes));
  HEDDLE_RETURN_IF_ERROR(reader.End());
  return reply;
}

}  // namespace heddle
