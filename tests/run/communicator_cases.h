// What every communicator must do: the same cases for threads and for processes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "run/communicator.h"

namespace heddle {

inline Payload Of(std::vector<double>& values) {
  return {nullptr, reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(double)};
}

// Devices 0 … n-1 that can talk to each other, each for one thread.
class World {
 public:
  virtual ~World() = default;
  virtual std::unique_ptr<Communicator> ForDevice(int32_t device) = 0;
};

using Groups = std::vector<std::vector<int32_t>>;
using MakeWorld = std::function<std::unique_ptr<World>(int devices, const Groups& groups)>;

struct WorldKind {
  std::string name;
  MakeWorld make;
};

inline void PrintTo(const WorldKind& kind, std::ostream* out) { *out << kind.name; }

// What every communicator must do.
class CommunicatorTest : public testing::TestWithParam<WorldKind> {
 protected:
  // Runs one function per device, each on a thread of its own.
  void OnDevices(const Groups& groups, int count,
                 const std::function<void(int, Communicator&)>& function) {
    const auto world = GetParam().make(count, groups);
    std::vector<std::thread> threads;
    for (int d = 0; d < count; ++d) {
      threads.emplace_back([&, d] {
        const auto communicator = world->ForDevice(d);
        function(d, *communicator);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

inline CollectiveCall Call(CollectiveKind kind, int group) {
  CollectiveCall call;
  call.kind = kind;
  call.group = group;
  call.dtype = DType::kF64;
  return call;
}

TEST_P(CommunicatorTest, MessagesKeepTheirOrderPerTag) {
  OnDevices({}, 2, [](int d, Communicator& communicator) {
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
TEST_P(CommunicatorTest, AllReduceAddsInRankOrder) {
  const double values[] = {1e16, 1, -1e16};
  OnDevices({{0, 1, 2}, {2, 0, 1}}, 3, [&](int d, Communicator& communicator) {
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

TEST_P(CommunicatorTest, UnevenAllGatherWithAnEmptyBlock) {
  OnDevices({{0, 1, 2}}, 3, [](int d, Communicator& communicator) {
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

TEST_P(CommunicatorTest, UnevenReduceScatter) {
  OnDevices({{0, 1}}, 2, [](int d, Communicator& communicator) {
    std::vector<double> first = {1.0 + d, 2.0 + d, 3.0 + d}, second = {10.0 * (d + 1)};
    std::vector<double> out(d == 0 ? 3 : 1);
    CollectiveCall call = Call(CollectiveKind::kReduceScatter, 0);
    call.in = {Of(first), Of(second)};
    call.out = {Of(out)};
    communicator.Collective(std::move(call))->Wait();
    EXPECT_EQ(out, d == 0 ? (std::vector<double>{3, 5, 7}) : (std::vector<double>{30}));
  });
}

// Every algorithm gives the same bits, those of the sum in rank order: blocks of many pieces, of
// one element and of none.
TEST_P(CommunicatorTest, AlgorithmsGiveTheSameBits) {
  const std::vector<size_t> counts = {30'000, 1, 0, 1234, 9000};
  const auto value = [](size_t rank, size_t block, size_t k) {
    return 1.0 / static_cast<double>(1 + 7 * rank + 3 * block + k % 1013) * (k % 3 == 0 ? -1e9 : 1);
  };
  for (const size_t members : {size_t{2}, size_t{3}, size_t{5}}) {
    std::vector<int32_t> everyone;
    for (size_t r = 0; r < members; ++r) everyone.push_back(static_cast<int32_t>(r));
    OnDevices({everyone}, static_cast<int>(members), [&](int d, Communicator& communicator) {
      const auto me = static_cast<size_t>(d);
      std::vector<std::vector<double>> parts(members);
      for (size_t block = 0; block < members; ++block) {
        for (size_t k = 0; k < counts[block]; ++k) parts[block].push_back(value(me, block, k));
      }
      std::vector<double> expected(counts[me]);
      for (size_t k = 0; k < counts[me]; ++k) {
        expected[k] = value(0, me, k);
        for (size_t r = 1; r < members; ++r) expected[k] += value(r, me, k);
      }
      for (const CollectiveAlgorithm algorithm :
           {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree,
            CollectiveAlgorithm::kHierarchical, CollectiveAlgorithm::kGrouped}) {
        CollectiveCall scatter = Call(CollectiveKind::kReduceScatter, 0);
        std::vector<double> sum(counts[me]);
        scatter.algorithm = algorithm;
        for (std::vector<double>& part : parts) scatter.in.push_back(Of(part));
        scatter.out = {Of(sum)};
        communicator.Collective(std::move(scatter))->Wait();
        EXPECT_EQ(sum, expected) << NameOf(algorithm) << ", rank " << d << " of " << members;
        CollectiveCall gather = Call(CollectiveKind::kAllGather, 0);
        std::vector<std::vector<double>> all(members);
        gather.algorithm = algorithm;
        gather.in = {Of(parts[me])};
        for (size_t r = 0; r < members; ++r) {
          all[r].resize(counts[r]);
          gather.out.push_back(Of(all[r]));
        }
        // A rank's own block is what it puts in.
        communicator.Collective(std::move(gather))->Wait();
        for (size_t r = 0; r < members; ++r) {
          std::vector<double> theirs;
          for (size_t k = 0; k < counts[r]; ++k) theirs.push_back(value(r, r, k));
          EXPECT_EQ(all[r], theirs) << NameOf(algorithm) << ", rank " << d << " of " << members;
        }
      }
    });
  }
}

TEST_P(CommunicatorTest, AllToAllAndBroadcastInASubgroup) {
  OnDevices({{2, 0}}, 3, [](int d, Communicator& communicator) {
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

// Several collectives of several groups at once, posted in another order on each device.
TEST_P(CommunicatorTest, GroupsDoNotWaitForEachOther) {
  OnDevices({{0, 1}, {1, 2}, {0, 2}, {0, 1, 2}}, 3, [](int d, Communicator& communicator) {
    const Groups groups = {{0, 1}, {1, 2}, {0, 2}, {0, 1, 2}};
    std::vector<std::vector<double>> values(groups.size(), std::vector<double>(1000, d + 1.0));
    std::vector<TicketPtr> tickets;
    for (size_t k = 0; k < groups.size(); ++k) {
      const size_t g = (k + static_cast<size_t>(d)) % groups.size();
      if (std::find(groups[g].begin(), groups[g].end(), d) == groups[g].end()) continue;
      CollectiveCall call = Call(CollectiveKind::kAllReduce, static_cast<int>(g));
      call.in = {Of(values[g])};
      tickets.push_back(communicator.Collective(std::move(call)));
    }
    for (const TicketPtr& ticket : tickets) ticket->Wait();
    for (size_t g = 0; g < groups.size(); ++g) {
      if (std::find(groups[g].begin(), groups[g].end(), d) == groups[g].end()) continue;
      double expected = 0;
      for (const int32_t member : groups[g]) expected += member + 1.0;
      EXPECT_EQ(values[g], std::vector<double>(1000, expected)) << "group " << g;
    }
  });
}

// Many messages under way, large and empty ones among them.
TEST_P(CommunicatorTest, ManyMessagesAtOnce) {
  OnDevices({}, 2, [](int d, Communicator& communicator) {
    constexpr int kMessages = 40;
    std::vector<std::vector<double>> values;
    for (int k = 0; k < kMessages; ++k) {
      const size_t size = k % 5 == 0 ? 0 : static_cast<size_t>(k) * 500;
      values.emplace_back(size, d == 0 ? k : -1.0);
    }
    std::vector<TicketPtr> tickets;
    for (int k = 0; k < kMessages; ++k) {
      std::vector<double>& value = values[static_cast<size_t>(k)];
      tickets.push_back(d == 0 ? communicator.Send(1, k, Of(value))
                               : communicator.Receive(0, k, Of(value)));
    }
    for (const TicketPtr& ticket : tickets) ticket->Wait();
    for (int k = 0; k < kMessages; ++k) {
      for (const double x : values[static_cast<size_t>(k)]) ASSERT_EQ(x, k);
    }
  });
}

}  // namespace heddle
