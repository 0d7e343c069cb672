#include "run/meet/sealed_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "run/meet/store_message.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// Both ends, and the wire between them.
struct Conversation {
  SealedChannel client, server;

  explicit Conversation(const Secret& clients, const Secret& servers)
      : client(SealedChannel::Side::kClient, clients, RandomBytes()),
        server(SealedChannel::Side::kServer, servers, RandomBytes()) {}

  static Status Carry(SealedChannel& from, SealedChannel& to) {
    const std::string bytes = std::move(from.outgoing());
    from.outgoing().clear();
    return to.Receive(bytes);
  }
  // The first that was refused.
  Status Meet() {
    for (int k = 0; k < 2; ++k) {
      HEDDLE_RETURN_IF_ERROR(Carry(client, server));
      HEDDLE_RETURN_IF_ERROR(Carry(server, client));
    }
    return Ok();
  }
};

TEST(SealedChannelTest, ThoseWhoKnowTheSecretTalk) {
  const Secret secret = Secret::Generate();
  Conversation both(secret, secret);
  EXPECT_FALSE(both.client.open());
  ASSERT_TRUE(both.Meet().ok());
  ASSERT_TRUE(both.client.open() && both.server.open());
  both.client.Send("one");
  both.client.Send("");
  ASSERT_TRUE(Conversation::Carry(both.client, both.server).ok());
  EXPECT_EQ(both.server.NextMessage(), "one");
  EXPECT_EQ(both.server.NextMessage(), "");
  EXPECT_EQ(both.server.NextMessage(), std::nullopt);
  both.server.Send("two");
  ASSERT_TRUE(Conversation::Carry(both.server, both.client).ok());
  EXPECT_EQ(both.client.NextMessage(), "two");
}

TEST(SealedChannelTest, AnotherSecretIsRefusedAndTold) {
  Conversation both(Secret::Of("one secret"), Secret::Of("another"));
  const Status met = both.Meet();
  ASSERT_FALSE(met.ok());
  EXPECT_THAT(met.error().what, HasSubstr("does not know the secret"));
  EXPECT_FALSE(both.server.open());
  const Status heard = Conversation::Carry(both.server, both.client);
  ASSERT_FALSE(heard.ok());
  EXPECT_TRUE(both.client.refused());
  EXPECT_THAT(heard.error().what, HasSubstr("another secret"));
}

// What was said once cannot be said again: not in this conversation, nor in another.
TEST(SealedChannelTest, NothingIsHeardTwice) {
  const Secret secret = Secret::Generate();
  Conversation first(secret, secret), second(secret, secret);
  ASSERT_TRUE(first.Meet().ok() && second.Meet().ok());
  first.client.Send("set");
  const std::string said = first.client.outgoing();
  ASSERT_TRUE(first.server.Receive(said).ok());
  EXPECT_FALSE(first.server.Receive(said).ok());
  EXPECT_FALSE(second.server.Receive(said).ok());
  // Nor to the one who said it.
  Conversation third(secret, secret);
  ASSERT_TRUE(third.Meet().ok());
  third.client.Send("set");
  EXPECT_FALSE(third.client.Receive(third.client.outgoing()).ok());
}

RC_GTEST_PROP(SealedChannelTest, AChangedByteIsNoticed, (const std::string& text)) {
  const Secret secret = Secret::Generate();
  Conversation both(secret, secret);
  RC_ASSERT(both.Meet().ok());
  both.client.Send(text);
  std::string bytes = both.client.outgoing();
  const auto at = *rc::gen::inRange<size_t>(0, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << *rc::gen::inRange(0, 8)));
  const Status status = both.server.Receive(bytes);
  RC_ASSERT(!status.ok() || !both.server.NextMessage());
}

// However the bytes are cut on their way.
RC_GTEST_PROP(SealedChannelTest, BytesMayComeOneByOne, (const std::string& text)) {
  const Secret secret = Secret::Generate();
  Conversation both(secret, secret);
  const auto carry = [](SealedChannel& from, SealedChannel& to) {
    const std::string bytes = std::move(from.outgoing());
    from.outgoing().clear();
    for (const char byte : bytes) RC_ASSERT(to.Receive({&byte, 1}).ok());
  };
  for (int k = 0; k < 2; ++k) {
    carry(both.client, both.server);
    carry(both.server, both.client);
  }
  RC_ASSERT(both.client.open() && both.server.open());
  both.client.Send(text);
  carry(both.client, both.server);
  RC_ASSERT(both.server.NextMessage() == text);
}

TEST(SealedChannelTest, StrangersAreRefusedByTheirFirstByte) {
  SealedChannel server(SealedChannel::Side::kServer, Secret::Generate(), RandomBytes());
  EXPECT_TRUE(server.Receive("h").ok());
  EXPECT_FALSE(server.Receive("GET / HTTP/1.1").ok());
}

TEST(SealedChannelTest, ALargeMessageIsRefusedByItsLength) {
  const Secret secret = Secret::Generate();
  Conversation both(secret, secret);
  ASSERT_TRUE(both.Meet().ok());
  const Status status = both.server.Receive(std::string(4, '\xff'));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().what, HasSubstr("4294967295 bytes"));
}

}  // namespace
}  // namespace heddle
