#include "run/local_communicator.h"

#include "run/communicator_cases.h"

namespace heddle {
namespace {

class LocalWorld final : public World {
 public:
  explicit LocalWorld(const Groups& groups) : exchange_(groups) {}
  std::unique_ptr<Communicator> ForDevice(int32_t device) override {
    return exchange_.ForDevice(device);
  }

 private:
  LocalExchange exchange_;
};

INSTANTIATE_TEST_SUITE_P(Local, CommunicatorTest,
                         testing::Values(WorldKind{"threads",
                                                   [](int, const Groups& groups) {
                                                     return std::make_unique<LocalWorld>(groups);
                                                   }}),
                         [](const auto& kind) { return kind.param.name; });

TEST(LocalCommunicatorTest, AbandonReleasesThoseWhoWait) {
  LocalExchange exchange({});
  std::vector<double> x(1);
  const auto communicator = exchange.ForDevice(0);
  const auto ticket = communicator->Receive(1, 0, Of(x));
  std::thread waiter([&] { EXPECT_THROW(ticket->Wait(), PeerLost); });
  exchange.Abandon();
  waiter.join();
  EXPECT_TRUE(exchange.abandoned());
}

}  // namespace
}  // namespace heddle
