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

// Without tags the order of posts decides, and a message that meets another is a fault.
TEST(LocalCommunicatorTest, InOrderMessagesOfAllTagsAreOneQueue) {
  LocalExchange exchange(Groups{}, LocalExchange::Matching::kInOrder);
  std::vector<double> first(1, 1), second(1, 2), a(1), b(1);
  const auto sender = exchange.ForDevice(0);
  const auto receiver = exchange.ForDevice(1);
  const TicketPtr one = sender->Send(1, 7, Of(first));
  const TicketPtr two = sender->Send(1, 3, Of(second));
  receiver->Receive(0, 7, Of(a))->Wait();
  receiver->Receive(0, 3, Of(b))->Wait();
  one->Wait();
  two->Wait();
  EXPECT_EQ(a[0], 1);
  EXPECT_EQ(b[0], 2);
  const TicketPtr again = sender->Send(1, 7, Of(first));
  EXPECT_DEATH(receiver->Receive(0, 3, Of(b)), "tag == tag");
}

TEST(LocalCommunicatorTest, AbandonReleasesThoseWhoWait) {
  LocalExchange exchange(Groups{});
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
