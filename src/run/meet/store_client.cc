#include "run/meet/store_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

Error Lost(std::string what) {
  return {ErrorKind::kRunFailed, "store", std::move(what),
          "is the address right, the port open, and have all devices started?"};
}

StoreClient::Milliseconds Left(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

// Far enough, and no overflow however long somebody is willing to wait.
Clock::time_point After(StoreClient::Milliseconds limit) {
  constexpr std::chrono::hours kLong{24 * 365};
  return Clock::now() + std::min<StoreClient::Milliseconds>(limit, kLong);
}

}  // namespace

StoreClient::StoreClient(Descriptor socket, const Secret& secret)
    : socket_(std::move(socket)), channel_(SealedChannel::Side::kClient, secret, RandomBytes()) {}

Result<std::unique_ptr<StoreClient>> StoreClient::Over(Descriptor socket, const Secret& secret,
                                                       Milliseconds limit) {
  std::unique_ptr<StoreClient> client(new StoreClient(std::move(socket), secret));
  HEDDLE_RETURN_IF_ERROR(client->Meet(limit));
  return client;
}

Result<std::unique_ptr<StoreClient>> StoreClient::Connect(const MeetingPlace& place,
                                                          const Secret& secret, Milliseconds limit,
                                                          const std::atomic<bool>* enough) {
  constexpr Milliseconds kPause{50}, kPatience{5000};
  const Clock::time_point deadline = After(limit);
  while (true) {
    const Milliseconds left = Left(deadline);
    Result<Descriptor> socket = Reach(place, std::min(left, kPatience));
    std::string why = socket.ok() ? "" : socket.error().what;
    if (socket.ok()) {
      std::unique_ptr<StoreClient> client(new StoreClient(std::move(socket).value(), secret));
      const Status met = client->Meet(std::min(left, kPatience));
      if (met.ok()) return client;
      why = met.error().what;
      if (client->channel_.refused())
        return Error{ErrorKind::kBadInput, place.ToString(), why,
                     "give all processes the same secret"};
    }
    const bool gives_up = enough != nullptr && *enough;
    if (gives_up || Left(deadline) == Milliseconds(0)) return Lost(why);
    std::this_thread::sleep_for(std::min(Left(deadline), kPause));
  }
}

Status StoreClient::Meet(Milliseconds limit) {
  const Clock::time_point deadline = After(limit);
  while (!channel_.open()) {
    HEDDLE_ASSIGN(const std::string bytes, Exchange(deadline));
    HEDDLE_RETURN_IF_ERROR(channel_.Receive(bytes));
  }
  return Ok();
}

// Sends what is outgoing and returns what has arrived by then, at least a byte.
Result<std::string> StoreClient::Exchange(Clock::time_point deadline) {
  std::string& outgoing = channel_.outgoing();
  while (true) {
    const short events = static_cast<short>(POLLIN | (outgoing.empty() ? 0 : POLLOUT));
    pollfd wanted{socket_.get(), events, 0};
    const int64_t left = std::min<int64_t>(Left(deadline).count(), INT32_MAX);
    const int count = poll(&wanted, 1, static_cast<int>(left));
    if (count < 0 && errno != EINTR) return Lost(std::strerror(errno));
    if (count == 0 && Left(deadline) == Milliseconds(0)) return Lost("does not answer");
    if (count <= 0) continue;
    if ((wanted.revents & POLLOUT) != 0) {
      const ssize_t sent = send(socket_.get(), outgoing.data(), outgoing.size(), MSG_NOSIGNAL);
      if (sent > 0) outgoing.erase(0, static_cast<size_t>(sent));
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return Lost(std::strerror(errno));
    }
    if ((wanted.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    char block[1 << 16];
    const ssize_t got = recv(socket_.get(), block, sizeof block, 0);
    if (got > 0) return std::string(block, static_cast<size_t>(got));
    if (got == 0) return Lost("the connection was closed");
    if (errno != EAGAIN && errno != EINTR) return Lost(std::strerror(errno));
  }
}

Result<StoreReply> StoreClient::Ask(const StoreRequest& request, Milliseconds limit) {
  const std::string message = PrintRequest(request);
  if (const auto fits = ParseRequest(message); !fits.ok()) return fits.error();
  const std::lock_guard lock(mutex_);
  if (broken_) return Lost("the connection was lost before");
  broken_ = true;  // unless all goes well: half a conversation cannot go on
  channel_.Send(message);
  const Clock::time_point deadline = After(limit);
  while (true) {
    HEDDLE_ASSIGN(const std::string bytes, Exchange(deadline));
    HEDDLE_RETURN_IF_ERROR(channel_.Receive(bytes));
    const std::optional<std::string> answer = channel_.NextMessage();
    if (!answer) continue;
    HEDDLE_ASSIGN(StoreReply reply, ParseReply(*answer));
    broken_ = false;
    if (reply.answer == StoreAnswer::kRefused) return Lost(reply.value);
    return reply;
  }
}

Status StoreClient::Set(const std::string& key, const std::string& value) {
  HEDDLE_RETURN_IF_ERROR(Ask({.op = StoreOp::kSet, .keys = {key}, .value = value}));
  return Ok();
}

Result<std::optional<std::string>> StoreClient::Look(const std::string& key) {
  HEDDLE_ASSIGN(StoreReply reply, Ask({.op = StoreOp::kGet, .keys = {key}}));
  if (reply.answer == StoreAnswer::kNo) return std::optional<std::string>();
  return std::optional(std::move(reply.value));
}

Result<std::string> StoreClient::Get(const std::string& key, Milliseconds limit) {
  HEDDLE_ASSIGN(const bool there, Wait({key}, limit));
  if (!there) return Lost(fmt::format("waited for {} in vain", key));
  HEDDLE_ASSIGN(std::optional<std::string> value, Look(key));
  if (!value) return Lost(fmt::format("{} has gone again", key));
  return std::move(*value);
}

Result<std::string> StoreClient::CompareSet(const std::string& key, const std::string& expected,
                                            const std::string& value) {
  HEDDLE_ASSIGN(
      StoreReply reply,
      Ask({.op = StoreOp::kCompareSet, .keys = {key}, .value = value, .expected = expected}));
  return std::move(reply.value);
}

Result<int64_t> StoreClient::Add(const std::string& key, int64_t number) {
  HEDDLE_ASSIGN(const StoreReply reply,
                Ask({.op = StoreOp::kAdd, .keys = {key}, .number = number}));
  return reply.number;
}

Result<bool> StoreClient::Check(const std::vector<std::string>& keys) {
  HEDDLE_ASSIGN(const StoreReply reply, Ask({.op = StoreOp::kCheck, .keys = keys}));
  return reply.answer == StoreAnswer::kDone;
}

Result<bool> StoreClient::Wait(const std::vector<std::string>& keys, Milliseconds limit) {
  HEDDLE_ASSIGN(
      const StoreReply reply,
      Ask({.op = StoreOp::kWait, .keys = keys, .number = limit.count()}, limit + kAnswerWithin));
  return reply.answer == StoreAnswer::kDone;
}

Result<bool> StoreClient::Delete(const std::string& key) {
  HEDDLE_ASSIGN(const StoreReply reply, Ask({.op = StoreOp::kDelete, .keys = {key}}));
  return reply.answer == StoreAnswer::kDone;
}

Result<int64_t> StoreClient::Count() {
  HEDDLE_ASSIGN(const StoreReply reply, Ask({.op = StoreOp::kCount}));
  return reply.number;
}

Status StoreClient::SetWill(const std::string& key, const std::string& value) {
  HEDDLE_RETURN_IF_ERROR(Ask({.op = StoreOp::kWill, .keys = {key}, .value = value}));
  return Ok();
}

Status StoreClient::DropWill() {
  HEDDLE_RETURN_IF_ERROR(Ask({.op = StoreOp::kWill}));
  return Ok();
}

}  // namespace heddle
