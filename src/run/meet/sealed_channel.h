// SealedChannel: one end of a conversation between two who know a Secret. Bytes in, bytes out; it
// knows no sockets.
//
//   client                                    server
//   "heddle/1", random a           ->
//                                  <-         random b
//   HMAC(secret, client a b)       ->                            the server knows who this is
//                                  <-         HMAC(secret, server a b)
//   then messages each way: length, message, HMAC(key of the direction, number, length, message)
//
// The keys of the directions come from the secret, a and b, so that nothing that was said before or
// elsewhere can be said again. Until the client has proven itself it is read 72 bytes from and no
// more. Messages can be read by whoever sees the wire, but not made or changed.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "run/meet/secret.h"

namespace heddle {

class SealedChannel {
 public:
  enum class Side { kClient, kServer };

  // `random` must never have been used before.
  SealedChannel(Side side, const Secret& secret, const Secret::Bytes& random);

  // What arrived. An error if the other does not know the secret, or what it says was changed; then
  // the conversation is over, once what is outgoing has been sent.
  Status Receive(std::string_view bytes);
  // Once open. `message` is no longer than StoreLimits::kMessageBytes.
  void Send(std::string_view message);

  // Both have proven that they know the secret.
  bool open() const { return stage_ == Stage::kOpen; }
  // The other end has said that our proof is wrong.
  bool refused() const { return refused_; }
  std::optional<std::string> NextMessage();
  // To be sent; those who send remove what has gone.
  std::string& outgoing() { return outgoing_; }

 private:
  enum class Stage { kHello, kChallenge, kProof, kAnswer, kOpen };

  Status ReadHello();
  Status ReadChallenge();
  Status ReadProof();
  Status ReadAnswer();
  Status ReadMessages();
  bool Has(size_t bytes) const { return incoming_.size() >= bytes; }
  std::string TakeIncoming(size_t bytes);
  Secret::Bytes Proof(std::string_view who) const;
  void Open();

  Side side_;
  Stage stage_;
  Secret secret_;
  Secret to_key_, from_key_;
  std::string client_random_, server_random_;
  uint64_t sent_ = 0, received_ = 0;
  bool refused_ = false;
  std::string incoming_, outgoing_;
  std::deque<std::string> messages_;
};

}  // namespace heddle
