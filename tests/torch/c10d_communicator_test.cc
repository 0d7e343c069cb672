#include "run/torch/c10d_communicator.h"

#include "run/communicator_cases.h"

namespace heddle {
namespace {

class C10dWorld final : public World {
 public:
  C10dWorld(int devices, Groups groups, bool native) : rendezvous_(HostRendezvous(0).value()) {
    options_.port = rendezvous_->port();
    options_.devices = devices;
    options_.groups = std::move(groups);
    options_.native_all_reduce = native;
  }
  std::unique_ptr<Communicator> ForDevice(int32_t device) override {
    C10dOptions mine = options_;
    mine.device = device;
    return ConnectC10d(mine).value();
  }

 private:
  std::unique_ptr<Rendezvous> rendezvous_;
  C10dOptions options_;
};

INSTANTIATE_TEST_SUITE_P(C10d, CommunicatorTest,
                         testing::Values(WorldKind{"gloo",
                                                   [](int devices, const Groups& groups) {
                                                     return std::make_unique<C10dWorld>(
                                                         devices, groups, false);
                                                   }}),
                         [](const auto& kind) { return kind.param.name; });

TEST(C10dCommunicatorTest, TheLibrarysOwnAllReduce) {
  C10dWorld world(2, {{0, 1}}, /*native=*/true);
  std::vector<std::thread> threads;
  for (int d = 0; d < 2; ++d) {
    threads.emplace_back([&, d] {
      const auto communicator = world.ForDevice(d);
      std::vector<double> mine = {1.0 + d, 2.0};
      CollectiveCall call = Call(CollectiveKind::kAllReduce, 0);
      call.in = {Of(mine)};
      communicator->Collective(std::move(call))->Wait();
      EXPECT_EQ(mine, (std::vector<double>{3, 4}));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(C10dCommunicatorTest, APortInUseAndNobodyThere) {
  const auto first = HostRendezvous(0).value();
  const auto second = HostRendezvous(first->port());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kRunFailed);
  EXPECT_NE(second.error().ToString().find(std::to_string(first->port())), std::string::npos);
  C10dOptions options;
  options.port = 1;
  options.meet_within = std::chrono::milliseconds(500);
  const auto nobody = ConnectC10d(options);
  ASSERT_FALSE(nobody.ok());
  EXPECT_NE(nobody.error().ToString().find("127.0.0.1:1"), std::string::npos);
}

}  // namespace
}  // namespace heddle
