#include "run/member_blocks.h"

#include <gtest/gtest.h>

#include <thread>

#include "run/local_communicator.h"

namespace heddle {
namespace {

// Counts what a member puts on its wire.
class CountingLink final : public PeerLink {
 public:
  explicit CountingLink(std::unique_ptr<Communicator> messages) : messages_(std::move(messages)) {}
  TicketPtr Send(size_t rank, std::byte* data, size_t bytes) override {
    sent_ += bytes;
    return messages_->Send(static_cast<int32_t>(rank), 0, {nullptr, data, bytes});
  }
  TicketPtr Receive(size_t rank, std::byte* data, size_t bytes) override {
    return messages_->Receive(static_cast<int32_t>(rank), 0, {nullptr, data, bytes});
  }
  size_t sent() const { return sent_; }

 private:
  std::unique_ptr<Communicator> messages_;
  size_t sent_ = 0;
};

// Bytes sent by each of four members with blocks of 5000, 100, 0 and 300 doubles, an all-gather
// (one) or a reduce-scatter.
std::vector<size_t> Sent(CollectiveKind kind, CollectiveAlgorithm algorithm) {
  const std::vector<size_t> counts = {5000, 100, 0, 300};
  LocalExchange exchange(std::vector<std::vector<int32_t>>{});
  std::vector<size_t> sent(counts.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<std::vector<double>> in, out;
      const bool gathers = kind == CollectiveKind::kAllGather;
      for (size_t r = 0; r < counts.size(); ++r) {
        (gathers ? out : in).emplace_back(counts[r], 1.0 / static_cast<double>(rank + r + 3));
      }
      (gathers ? in : out).emplace_back(counts[rank], static_cast<double>(rank));
      CollectiveCall call;
      call.kind = kind;
      call.algorithm = algorithm;
      call.dtype = DType::kF64;
      const auto payload = [](std::vector<double>& values) {
        return Payload{nullptr, reinterpret_cast<std::byte*>(values.data()), 8 * values.size()};
      };
      for (std::vector<double>& values : in) call.in.push_back(payload(values));
      for (std::vector<double>& values : out) call.out.push_back(payload(values));
      CountingLink link(exchange.ForDevice(static_cast<int32_t>(rank)));
      std::vector<std::byte> scratch;
      ExchangeBlocksWith(link, call, rank, scratch);
      sent[rank] = link.sent();
      for (size_t r = 0; gathers && r < counts.size(); ++r) {
        EXPECT_EQ(out[r], std::vector<double>(counts[r], static_cast<double>(r)));
      }
      if (gathers) return;
      double sum = 0;
      for (size_t r = 0; r < counts.size(); ++r) sum += 1.0 / static_cast<double>(rank + r + 3);
      EXPECT_EQ(out[0], std::vector<double>(counts[rank], sum));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return sent;
}

TEST(MemberBlocksTest, SendsTheBytesOfItsAlgorithm) {
  using Kind = CollectiveKind;
  using Algorithm = CollectiveAlgorithm;
  const auto times8 = [](std::vector<size_t> counts) {
    for (size_t& count : counts) count *= 8;
    return counts;
  };
  // Padded: three times the longest each, whoever has nothing too.
  EXPECT_EQ(Sent(Kind::kAllGather, Algorithm::kRing), times8({15000, 15000, 15000, 15000}));
  EXPECT_EQ(Sent(Kind::kReduceScatter, Algorithm::kRing), times8({15000, 15000, 15000, 15000}));
  // Around the ring: all but the block of the next.
  EXPECT_EQ(Sent(Kind::kAllGather, Algorithm::kGrouped), times8({5300, 5400, 5100, 400}));
  // Up the ranks: everything; from the last: all but its own.
  EXPECT_EQ(Sent(Kind::kReduceScatter, Algorithm::kGrouped), times8({5400, 5400, 5400, 5100}));
  EXPECT_EQ(Sent(Kind::kAllGather, Algorithm::kTree), times8({15000, 300, 0, 900}));
}

}  // namespace
}  // namespace heddle
