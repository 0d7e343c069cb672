#include "run/meet/sealed_channel.h"

#include <fmt/format.h>

#include "base/check.h"
#include "run/meet/store_message.h"

namespace heddle {
namespace {

constexpr std::string_view kMagic = "heddle/1";
constexpr size_t kLengthBytes = 4;

Error Stranger(std::string what) {
  return {ErrorKind::kRunFailed, "store", std::move(what), "give all processes the same secret"};
}

std::string LittleEndian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t k = 0; k < bytes; ++k) text.push_back(static_cast<char>(value >> (8 * k)));
  return text;
}

uint64_t FromLittleEndian(std::string_view text) {
  uint64_t value = 0;
  for (size_t k = 0; k < text.size(); ++k) {
    value |= uint64_t{static_cast<uint8_t>(text[k])} << (8 * k);
  }
  return value;
}

}  // namespace

SealedChannel::SealedChannel(Side side, const Secret& secret, const Secret::Bytes& random)
    : side_(side),
      stage_(side == Side::kClient ? Stage::kChallenge : Stage::kHello),
      secret_(secret),
      to_key_(secret),
      from_key_(secret) {
  (side == Side::kClient ? client_random_ : server_random_) = TextOf(random);
  if (side == Side::kClient) outgoing_ = std::string(kMagic) + client_random_;
}

std::string SealedChannel::TakeIncoming(size_t bytes) {
  std::string taken = incoming_.substr(0, bytes);
  incoming_.erase(0, bytes);
  return taken;
}

Secret::Bytes SealedChannel::Proof(std::string_view who) const {
  return secret_.Tag({who, client_random_, server_random_});
}

void SealedChannel::Open() {
  const Secret up = secret_.Derive({"to the server", client_random_, server_random_});
  const Secret down = secret_.Derive({"to the client", client_random_, server_random_});
  to_key_ = side_ == Side::kClient ? up : down;
  from_key_ = side_ == Side::kClient ? down : up;
  stage_ = Stage::kOpen;
}

Status SealedChannel::Receive(std::string_view bytes) {
  incoming_ += bytes;
  if (stage_ == Stage::kHello) HEDDLE_RETURN_IF_ERROR(ReadHello());
  if (stage_ == Stage::kChallenge) HEDDLE_RETURN_IF_ERROR(ReadChallenge());
  if (stage_ == Stage::kProof) HEDDLE_RETURN_IF_ERROR(ReadProof());
  if (stage_ == Stage::kAnswer) HEDDLE_RETURN_IF_ERROR(ReadAnswer());
  return stage_ == Stage::kOpen ? ReadMessages() : Ok();
}

Status SealedChannel::ReadHello() {
  const std::string_view seen = std::string_view(incoming_).substr(0, kMagic.size());
  if (!kMagic.starts_with(seen)) return Stranger("does not speak heddle's protocol");
  if (!Has(kMagic.size() + Secret::kBytes)) return Ok();
  TakeIncoming(kMagic.size());
  client_random_ = TakeIncoming(Secret::kBytes);
  outgoing_ += server_random_;
  stage_ = Stage::kProof;
  return Ok();
}

Status SealedChannel::ReadChallenge() {
  if (!Has(Secret::kBytes)) return Ok();
  server_random_ = TakeIncoming(Secret::kBytes);
  outgoing_ += TextOf(Proof("client"));
  stage_ = Stage::kAnswer;
  return Ok();
}

Status SealedChannel::ReadProof() {
  if (!Has(Secret::kBytes)) return Ok();
  if (!SameBytes(Proof("client"), TakeIncoming(Secret::kBytes))) {
    outgoing_ += std::string(Secret::kBytes, '\0');  // so that the other can say what is wrong
    return Stranger("does not know the secret of this run");
  }
  outgoing_ += TextOf(Proof("server"));
  Open();
  return Ok();
}

Status SealedChannel::ReadAnswer() {
  if (!Has(Secret::kBytes)) return Ok();
  const std::string answer = TakeIncoming(Secret::kBytes);
  if (!SameBytes(Proof("server"), answer)) {
    refused_ = answer == std::string(Secret::kBytes, '\0');
    return Stranger(refused_ ? "has another secret than this process"
                             : "does not know the secret of this run");
  }
  Open();
  return Ok();
}

Status SealedChannel::ReadMessages() {
  while (Has(kLengthBytes)) {
    const std::string length = incoming_.substr(0, kLengthBytes);
    const size_t bytes = FromLittleEndian(length);
    if (bytes > StoreLimits::kMessageBytes) {
      return Stranger(fmt::format("announces a message of {} bytes", bytes));
    }
    if (!Has(kLengthBytes + bytes + Secret::kBytes)) return Ok();
    TakeIncoming(kLengthBytes);
    std::string message = TakeIncoming(bytes);
    const Secret::Bytes tag =
        from_key_.Tag({LittleEndian(received_++, sizeof received_), length, message});
    if (!SameBytes(tag, TakeIncoming(Secret::kBytes))) {
      return Stranger("a message was changed on its way");
    }
    messages_.push_back(std::move(message));
  }
  return Ok();
}

void SealedChannel::Send(std::string_view message) {
  HEDDLE_CHECK(open() && message.size() <= StoreLimits::kMessageBytes);
  const std::string length = LittleEndian(message.size(), kLengthBytes);
  const Secret::Bytes tag = to_key_.Tag({LittleEndian(sent_++, sizeof sent_), length, message});
  outgoing_ += length;
  outgoing_ += message;
  outgoing_ += TextOf(tag);
}

std::optional<std::string> SealedChannel::NextMessage() {
  if (messages_.empty()) return std::nullopt;
  std::string message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

}  // namespace heddle
