#include "run/local_communicator.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace heddle {
namespace {

Payload Of(std::vector<double>& values) {
  return {nullptr, reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(double)};
}

// Runs one function per device, each on a thread of its own.
void OnDevices(LocalExchange& exchange, int count,
               const std::function<void(int, Communicator&)>& function) {
  std::vector<std::thread> threads;
  for (int d = 0; d < count; ++d) {
    threads.emplace_back([&, d] {
      const auto communicator = exchange.ForDevice(d);
      function(d, *communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

CollectiveCall Call(CollectiveKind kind, int group) {
  CollectiveCall call;
  call.kind = kind;
  call.group = group;
  call.dtype = DType::kF64;
  return call;
}

TEST(LocalCommunicatorTest, MessagesKeepTheirOrderPerTag) {
  LocalExchange exchange({});
  OnDevices(exchange, 2, [](int d, Communicator& communicator) {
    std::vector<double> a = {1}, b = {2}, c = {3};
    if (d == 0) {
      const auto first = communicator.Send(1, 0, Of(a));
      const auto second = communicator.Send(1, 0, Of(b));
      communicator.Send(1, 7, Of(c))->Wait();
      first->Wait();
      second->Wait();
      return;
    }
    std::vector<double> x(1), y(1), z(1);
    const auto tagged = communicator.Receive(0, 7, Of(z));
    const auto first = communicator.Receive(0, 0, Of(x));
    communicator.Receive(0, 0, Of(y))->Wait();
    first->Wait();
    tagged->Wait();
    EXPECT_EQ(x[0], 1);
    EXPECT_EQ(y[0], 2);
    EXPECT_EQ(z[0], 3);
  });
}

// 1e16 + 1 - 1e16 depends on the order: it must be the order of ranks, in every group.
TEST(LocalCommunicatorTest, AllReduceAddsInRankOrder) {
  LocalExchange exchange({{0, 1, 2}, {2, 0, 1}});
  const double values[] = {1e16, 1, -1e16};
  OnDevices(exchange, 3, [&](int d, Communicator& communicator) {
    for (const int group : {0, 1}) {
      std::vector<double> mine = {values[d], 1};
      std::vector<double> empty;
      CollectiveCall call = Call(CollectiveKind::kAllReduce, group);
      call.in = {Of(mine), Of(empty)};
      communicator.Collective(std::move(call))->Wait();
      const double expected = group == 0 ? (1e16 + 1) + -1e16 : (-1e16 + 1e16) + 1;
      EXPECT_EQ(mine[0], expected);
      EXPECT_EQ(mine[1], 3);
    }
  });
}

TEST(LocalCommunicatorTest, UnevenAllGatherWithAnEmptyBlock) {
  LocalExchange exchange({{0, 1, 2}});
  OnDevices(exchange, 3, [](int d, Communicator& communicator) {
    std::vector<double> blocks[] = {{1, 2}, {}, {3}};
    std::vector<double> out[] = {std::vector<double>(2), {}, std::vector<double>(1)};
    CollectiveCall call = Call(CollectiveKind::kAllGather, 0);
    call.in = {Of(blocks[d])};
    call.out = {Of(out[0]), Of(out[1]), Of(out[2])};
    communicator.Collective(std::move(call))->Wait();
    EXPECT_EQ(out[0], (std::vector<double>{1, 2}));
    EXPECT_EQ(out[2], (std::vector<double>{3}));
  });
}

TEST(LocalCommunicatorTest, UnevenReduceScatter) {
  LocalExchange exchange({{0, 1}});
  OnDevices(exchange, 2, [](int d, Communicator& communicator) {
    std::vector<double> first = {1.0 + d, 2.0 + d, 3.0 + d}, second = {10.0 * (d + 1)};
    std::vector<double> out(d == 0 ? 3 : 1);
    CollectiveCall call = Call(CollectiveKind::kReduceScatter, 0);
    call.in = {Of(first), Of(second)};
    call.out = {Of(out)};
    communicator.Collective(std::move(call))->Wait();
    EXPECT_EQ(out, d == 0 ? (std::vector<double>{3, 5, 7}) : (std::vector<double>{30}));
  });
}

TEST(LocalCommunicatorTest, AllToAllAndBroadcastInASubgroup) {
  LocalExchange exchange({{2, 0}});
  OnDevices(exchange, 3, [](int d, Communicator& communicator) {
    if (d == 1) return;
    const double me = d;
    std::vector<double> to_first = {me}, to_second = {me, me};
    std::vector<double> from_first(d == 2 ? 1 : 2), from_second(d == 2 ? 1 : 2);
    CollectiveCall call = Call(CollectiveKind::kAllToAll, 0);
    call.in = {Of(to_first), Of(to_second)};
    call.out = {Of(from_first), Of(from_second)};
    communicator.Collective(std::move(call))->Wait();
    EXPECT_EQ(from_first[0], 2);
    EXPECT_EQ(from_second[0], 0);
    std::vector<double> value = {me};
    CollectiveCall broadcast = Call(CollectiveKind::kBroadcast, 0);
    broadcast.root = 0;  // device 2
    broadcast.in = {Of(value)};
    communicator.Collective(std::move(broadcast))->Wait();
    EXPECT_EQ(value[0], 2);
  });
}

TEST(LocalCommunicatorTest, AbandonReleasesThoseWhoWait) {
  LocalExchange exchange({});
  std::vector<double> x(1);
  const auto communicator = exchange.ForDevice(0);
  const auto ticket = communicator->Receive(1, 0, Of(x));
  std::thread waiter([&] { ticket->Wait(); });
  exchange.Abandon();
  waiter.join();
  EXPECT_TRUE(exchange.abandoned());
}

}  // namespace
}  // namespace heddle
