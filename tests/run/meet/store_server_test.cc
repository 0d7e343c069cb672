// The store with real sockets: those who belong to it, and those who do not.

#include "run/meet/store_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "support/child_process.h"

namespace heddle {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::HasSubstr;

// A server at a port of this host, and the lines that it says.
class StoreServerTest : public testing::Test {
 protected:
  void Start(milliseconds proof_within = hours(1)) {
    StoreServerOptions options{secret_};
    options.members = 4;
    options.proof_within = proof_within;
    options.note = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      notes_ += line + "\n";
    };
    Listener listener = std::move(Listen({"", "127.0.0.1", 0})).value();
    server_ = std::move(StoreServer::Start(std::move(listener), std::move(options))).value();
  }
  std::unique_ptr<StoreClient> Client() const {
    return std::move(StoreClient::Connect(server_->place(), secret_, hours(1))).value();
  }
  Descriptor Stranger() const { return std::move(Reach(server_->place(), hours(1))).value(); }
  static void Say(const Descriptor& socket, const std::string& bytes) {
    ASSERT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  }
  // Until the server has closed it.
  static void AwaitEnd(const Descriptor& socket) {
    char byte = 0;
    while (true) {
      pollfd wanted{socket.get(), POLLIN, 0};
      ASSERT_EQ(poll(&wanted, 1, -1), 1);
      if (recv(socket.get(), &byte, 1, 0) <= 0) return;
    }
  }
  std::string notes() {
    server_.reset();  // says what it has to say
    return notes_;
  }

  Secret secret_ = Secret::Generate();
  std::mutex mutex_;
  std::string notes_;
  std::unique_ptr<StoreServer> server_;
};

TEST_F(StoreServerTest, AllOperations) {
  Start();
  const auto one = Client(), two = Client();
  ASSERT_TRUE(one->Set("a", std::string("\0\xff", 2)).ok());
  EXPECT_EQ(two->Get("a", hours(1)).value(), std::string("\0\xff", 2));
  EXPECT_FALSE(two->Look("b").value().has_value());
  EXPECT_EQ(one->Add("n", 2).value(), 2);
  EXPECT_EQ(two->Add("n", 40).value(), 42);
  EXPECT_TRUE(one->Check({"a", "n"}).value());
  EXPECT_FALSE(one->Check({"a", "b"}).value());
  EXPECT_FALSE(one->Wait({"b"}, milliseconds(1)).value());
  EXPECT_EQ(one->CompareSet("c", "", "x").value(), "x");
  EXPECT_EQ(two->CompareSet("c", "", "y").value(), "x");
  EXPECT_EQ(two->Count().value(), 3);
  EXPECT_TRUE(two->Delete("c").value());
  EXPECT_FALSE(two->Delete("c").value());
  const std::string large(StoreLimits::kValueBytes, 'v');
  ASSERT_TRUE(one->Set("large", large).ok());
  EXPECT_EQ(two->Get("large", hours(1)).value(), large);
  EXPECT_FALSE(one->Set("larger", large + "v").ok());
  EXPECT_TRUE(one->Set("after", "").ok());  // the refusal was here, and nothing is broken
}

TEST_F(StoreServerTest, OneWaitsForAnother) {
  Start();
  std::thread waits([this] { EXPECT_EQ(Client()->Get("late", hours(1)).value(), "here"); });
  EXPECT_TRUE(Client()->Set("late", "here").ok());
  waits.join();
}

TEST_F(StoreServerTest, AWillIsDoneWhenAConnectionBreaks) {
  Start();
  const auto heir = Client();
  auto first = Client(), second = Client(), third = Client();
  ASSERT_TRUE(first->SetWill("left", "1").ok());
  ASSERT_TRUE(second->SetWill("left", "2").ok());
  ASSERT_TRUE(third->SetWill("left", "3").ok());
  ASSERT_TRUE(third->DropWill().ok());
  third.reset();  // it had none
  second.reset();
  EXPECT_EQ(heir->Get("left", hours(1)).value(), "2");
  first.reset();  // not the first to leave
  ASSERT_TRUE(heir->Set("x", "").ok());
  EXPECT_EQ(heir->Get("left", hours(1)).value(), "2");
}

TEST_F(StoreServerTest, AnotherSecretIsSaidOnBothSides) {
  Start();
  const auto other = StoreClient::Connect(server_->place(), Secret::Generate(), hours(1));
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(other.error().ToString(), HasSubstr("another secret"));
  EXPECT_THAT(notes(), HasSubstr("127.0.0.1:"));
  EXPECT_THAT(notes_, HasSubstr("does not know the secret of this run"));
}

// More connections than a process may have files, each with a byte that is held: those who belong
// here are served all the same, and one line says it.
TEST_F(StoreServerTest, AThousandStrangersWhoHoldTheirByte) {
  const std::string said = InChild([this] {
    const rlimit few{256, 256};
    setrlimit(RLIMIT_NOFILE, &few);
    Start();
    const auto early = Client();
    const pid_t strangers = fork();
    if (strangers == 0) {
      const rlimit many{4096, 4096};
      setrlimit(RLIMIT_NOFILE, &many);
      std::vector<Descriptor> held;
      for (int k = 0; k < 1100; ++k) {
        auto socket = Reach(server_->place(), hours(1));
        if (!socket.ok()) break;
        send(socket.value().get(), "h", 1, MSG_NOSIGNAL);
        held.push_back(std::move(socket).value());
        if (held.size() > 200) held.erase(held.begin());
      }
      _exit(0);
    }
    if (!early->Set("early", "1").ok()) return std::string("early lost it");
    const auto late = Client();
    if (late->Get("early", hours(1)).value() != "1") return std::string("late lost it");
    waitpid(strangers, nullptr, 0);
    if (!Client()->Set("last", "1").ok()) return std::string("last lost it");
    return notes();
  });
  EXPECT_THAT(said, HasSubstr("was refused"));
  EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 60) << said;
}

// The process has no file left for who comes: it says so and goes on.
TEST_F(StoreServerTest, NoFileIsLeft) {
  const std::string said = InChild([this] {
    const rlimit few{40, 40};
    setrlimit(RLIMIT_NOFILE, &few);
    Start();
    const auto early = Client();
    std::vector<Descriptor> taken;
    while (true) {
      Descriptor file(open("/dev/null", O_RDONLY));
      if (!file.valid()) break;
      taken.push_back(std::move(file));
    }
    taken.pop_back();
    const Descriptor unseen = Stranger();  // the server can give it none
    AwaitEnd(unseen);
    if (!early->Set("early", "1").ok()) return std::string("early lost it");
    taken.clear();
    if (!Client()->Set("late", "1").ok()) return std::string("late lost it");
    return notes();
  });
  EXPECT_THAT(said, HasSubstr("no more files"));
}

TEST_F(StoreServerTest, WhoSaysNothingInTimeIsSentAway) {
  Start(milliseconds(50));
  const Descriptor silent = Stranger(), slow = Stranger();
  Say(slow, "h");
  AwaitEnd(silent);
  AwaitEnd(slow);
  EXPECT_THAT(notes(), HasSubstr("gave no proof in time"));
}

TEST_F(StoreServerTest, ATcpStoresClientIsRefused) {
  Start();
  const Descriptor stranger = Stranger();
  Say(stranger, std::string("\x00\x05\x00\x00\x00\x00\x00\x00\x00"
                            "init/",
                            14));
  AwaitEnd(stranger);
  EXPECT_THAT(notes(), HasSubstr("does not speak heddle's protocol"));
}

TEST_F(StoreServerTest, ItListensWhereItIsToldAndNowhereElse) {
  Start();
  const auto another = Reach({"", "127.0.0.2", server_->place().port}, hours(1));
  EXPECT_FALSE(another.ok());
}

TEST_F(StoreServerTest, APortInUseIsAnError) {
  Start();
  const auto second = Listen(server_->place());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kRunFailed);
  EXPECT_THAT(second.error().ToString(), HasSubstr(std::to_string(server_->place().port)));
}

TEST(MeetingPlaceTest, OnThisHostThereIsNoPort) {
  const auto number = static_cast<uint16_t>(getpid() % 60000 + 1);
  const MeetingPlace place = PlaceOnThisHost(number).value();
  struct stat state {};
  ASSERT_EQ(stat(std::filesystem::path(place.socket).parent_path().c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0700U);
  const Secret none = Secret::Of("");
  {
    auto server = StoreServer::Start(std::move(Listen(place)).value(), {none}).value();
    ASSERT_EQ(stat(place.socket.c_str(), &state), 0);
    EXPECT_EQ(state.st_mode & 0777, 0600U);
    const auto client = StoreClient::Connect(place, none, hours(1)).value();
    EXPECT_TRUE(client->Set("a", "b").ok());
    const auto second = Listen(place);
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(second.error().ToString(), HasSubstr("another run of yours meets there"));
  }
  EXPECT_FALSE(std::filesystem::exists(place.socket));
  EXPECT_FALSE(std::filesystem::exists(place.socket + ".lock"));
  // What a killed process left is no hindrance.
  const pid_t killed = fork();
  if (killed == 0) {
    const auto listener = Listen(place);
    raise(SIGKILL);
  }
  waitpid(killed, nullptr, 0);
  EXPECT_TRUE(Listen(place).ok());
  EXPECT_FALSE(std::filesystem::exists(place.socket + ".lock"));
}

// Whoever listens next, at whatever number, removes it, and nothing of those who live.
TEST(MeetingPlaceTest, WhatTheKilledLeftIsClearedUp) {
  const auto number = static_cast<uint16_t>(getpid() % 20000 * 3 + 1);
  const MeetingPlace lives = PlaceOnThisHost(number).value();
  const MeetingPlace dies = PlaceOnThisHost(static_cast<uint16_t>(number + 1)).value();
  const MeetingPlace comes = PlaceOnThisHost(static_cast<uint16_t>(number + 2)).value();
  const auto living = Listen(lives);
  ASSERT_TRUE(living.ok());
  const std::string other = std::filesystem::path(lives.socket).parent_path() / "notes.lock";
  std::ofstream(other) << "mine";
  const pid_t killed = fork();
  if (killed == 0) {
    const auto listener = Listen(dies);
    raise(SIGKILL);
  }
  waitpid(killed, nullptr, 0);
  EXPECT_TRUE(Listen(comes).ok());
  EXPECT_FALSE(std::filesystem::exists(dies.socket));
  EXPECT_FALSE(std::filesystem::exists(dies.socket + ".lock"));
  EXPECT_TRUE(std::filesystem::exists(lives.socket));
  EXPECT_TRUE(std::filesystem::exists(lives.socket + ".lock"));
  EXPECT_TRUE(std::filesystem::remove(other));
}

TEST(MeetingPlaceTest, WhichAddressesAreThisHostItself) {
  for (const char* address : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address : {"10.0.0.1", "node0", "0.0.0.0", "", "128.0.0.1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
  EXPECT_EQ(AddressOfInterface("lo").value(), "127.0.0.1");
  EXPECT_EQ(AddressOfInterface("10.1.2.3").value(), "10.1.2.3");
}

TEST(SeatsTest, ForkedProcessesHaveOneEach) {
  const Seats seats = Seats::Make(2).value();
  std::vector<pid_t> children;
  for (int k = 0; k < 2; ++k) {
    const pid_t child = fork();
    if (child == 0) {
      const auto store = seats.Take(k, hours(1)).value();
      seats.CloseRest();
      const bool ok = store->Set(std::to_string(k), "x").ok() &&
                      store->Get(std::to_string(1 - k), hours(1)).ok();
      _exit(ok ? 0 : 1);
    }
    children.push_back(child);
  }
  const auto server = StoreServer::Start(seats).value();
  seats.CloseRest();
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace heddle
