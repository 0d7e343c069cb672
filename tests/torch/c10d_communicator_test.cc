#include "run/torch/c10d_communicator.h"

#include "run/communicator_cases.h"
#include "run/meet/store_server.h"
#include "run/torch/c10d_store.h"

namespace heddle {
namespace {

class C10dWorld final : public World {
 public:
  C10dWorld(int devices, Groups groups, bool native)
      : seats_(Seats::Make(devices).value()), server_(StoreServer::Start(seats_).value()) {
    options_.devices = devices;
    options_.groups = std::move(groups);
    options_.native_all_reduce = native;
  }
  std::unique_ptr<Communicator> ForDevice(int32_t device) override {
    C10dOptions mine = options_;
    mine.device = device;
    mine.store = seats_.Take(device, std::chrono::hours(1)).value();
    return ConnectC10d(mine).value();
  }

 private:
  Seats seats_;
  std::unique_ptr<StoreServer> server_;
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

// The other device never comes.
TEST(C10dCommunicatorTest, NobodyThere) {
  const Seats seats = Seats::Make(1).value();
  const auto server = StoreServer::Start(seats).value();
  C10dOptions options;
  options.store = seats.Take(0, std::chrono::hours(1)).value();
  options.devices = 2;
  options.timeout = std::chrono::milliseconds(200);
  const auto nobody = ConnectC10d(options);
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.error().kind, ErrorKind::kRunFailed);
  EXPECT_NE(nobody.error().ToString().find("cannot reach the others"), std::string::npos);
}

// All that c10d may ask of a store.
TEST(C10dStoreTest, DoesWhatC10dAsks) {
  const Seats seats = Seats::Make(1).value();
  const auto server = StoreServer::Start(seats).value();
  C10dStore store(seats.Take(0, std::chrono::hours(1)).value(), std::chrono::milliseconds(20));
  const std::vector<uint8_t> one = {1, 0, 255}, two = {2};
  store.set("a", one);
  EXPECT_EQ(store.get("a"), one);
  EXPECT_EQ(store.compareSet("a", two, two), one);
  EXPECT_EQ(store.compareSet("a", one, two), two);
  EXPECT_EQ(store.add("n", 5), 5);
  EXPECT_TRUE(store.check({"a", "n"}));
  EXPECT_EQ(store.getNumKeys(), 2);
  EXPECT_TRUE(store.deleteKey("a"));
  EXPECT_FALSE(store.check({"a"}));
  store.wait({"n"});
  EXPECT_THROW(store.wait({"a"}), std::exception);
  EXPECT_THROW(store.get("a"), std::exception);
}

}  // namespace
}  // namespace heddle
