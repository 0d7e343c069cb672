#include "run/meet/store_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <optional>
#include <thread>

#include "run/meet/sealed_channel.h"
#include "run/meet/store_message.h"
#include "run/meet/store_table.h"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostStrangers = 64;  // who have yet to prove who they are
constexpr size_t kMostPerMember = 4;   // connections
constexpr std::chrono::milliseconds kTick{100}, kNotePause{1000};

// As many files as this process is allowed to ask for: members and strangers need one each.
void AllowManyFiles() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  constexpr rlim_t kEnough = 1 << 16;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kEnough));
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string NameOf(const sockaddr_storage& address, socklen_t size) {
  if (address.ss_family == AF_UNIX) return "a process of this host";
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host,
                                sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return error != 0 ? "somebody" : fmt::format("{}:{}", host, port);
}

struct Connection {
  Descriptor socket;
  std::string name;
  SealedChannel channel;
  Clock::time_point since;                 // it came
  std::optional<StoreRequest> waits = {};  // a kWait that cannot be answered yet
  Clock::time_point waits_until = {};
  std::optional<StoreRequest> will = {};
  bool over = false;

  // Nothing more is read from one that has yet to hear the last answer.
  bool listens() { return !over && !waits && channel.outgoing().empty(); }
};

}  // namespace

Result<Seats> Seats::Make(int count) {
  Seats seats{Secret::Generate()};
  for (int k = 0; k < count; ++k) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
      return Error{ErrorKind::kRunFailed, "run",
                   fmt::format("cannot connect {} processes: {}", count, std::strerror(errno)),
                   "fewer devices, or more open files allowed (ulimit -n)"};
    }
    seats.pairs_->push_back({Descriptor(ends[0]), Descriptor(ends[1])});
  }
  return seats;
}

Result<std::unique_ptr<StoreClient>> Seats::Take(int seat, std::chrono::milliseconds limit) const {
  return StoreClient::Over(std::move((*pairs_)[static_cast<size_t>(seat)].mine), secret_, limit);
}

void Seats::CloseRest() const { pairs_->clear(); }

std::vector<Descriptor> Seats::TakeEnds() const {
  std::vector<Descriptor> ends;
  for (Pair& pair : *pairs_) ends.push_back(std::move(pair.servers));
  return ends;
}

class StoreServer::Impl {
 public:
  Impl(Listener listener, std::vector<Descriptor> seats, StoreServerOptions options)
      : listener_(std::move(listener)),
        options_(std::move(options)),
        most_members_(kMostPerMember * static_cast<size_t>(options_.members) + kMostPerMember),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        spare_(OpenSpare()) {
    for (Descriptor& seat : seats) Welcome(std::move(seat), "a process of this run");
    thread_ = std::thread([this] { Serve(); });
  }

  ~Impl() {
    ends_ = true;
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
    thread_.join();
  }

  const MeetingPlace& place() const { return listener_.place; }

 private:
  void Serve() {
    while (!ends_) {
      Poll();
      ExpireWaits();
      SendAwayTheSlow();
      for (Connection& connection : connections_) {
        if (connection.over) LeaveWill(connection);
      }
      AnswerWaits();
      connections_.remove_if([](const Connection& connection) { return connection.over; });
      SayNotes(/*at_end=*/false);
    }
    SayNotes(/*at_end=*/true);
  }

  void Poll() {
    std::vector<pollfd> wanted = {{wake_.get(), POLLIN, 0}, {listener_.socket.get(), POLLIN, 0}};
    bool hurry = refused_ > 0;
    for (Connection& connection : connections_) {
      hurry = hurry || connection.waits || !connection.channel.open();
      const bool sends = !connection.channel.outgoing().empty();
      const int events = (connection.listens() ? POLLIN : 0) | (sends ? POLLOUT : 0);
      wanted.push_back({connection.socket.get(), static_cast<short>(events), 0});
    }
    const int timeout = hurry ? static_cast<int>(kTick.count()) : -1;
    if (poll(wanted.data(), wanted.size(), timeout) <= 0) return;
    size_t k = 2;
    for (Connection& connection : connections_) {
      if (const short seen = wanted[k++].revents; seen != 0) Attend(connection, seen);
    }
    if (wanted[1].revents != 0) Accept();
  }

  void Attend(Connection& connection, short seen) {
    if ((seen & POLLOUT) != 0) Flush(connection);
    if (connection.listens() && (seen & POLLIN) != 0) {
      Read(connection);
    } else if ((seen & (POLLHUP | POLLERR)) != 0) {
      connection.over = true;
    }
  }

  void Read(Connection& connection) {
    char block[1 << 16];
    // A stranger is read no more from than it takes to know it.
    const size_t most = connection.channel.open() ? sizeof block : 2 * Secret::kBytes;
    const ssize_t count = recv(connection.socket.get(), block, most, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      if (!connection.channel.open()) Refuse(connection, "left without a proof");
      connection.over = true;
      return;
    }
    const Status status = connection.channel.Receive({block, static_cast<size_t>(count)});
    if (!status.ok()) {
      Flush(connection);
      Refuse(connection, status.error().what);
      return;
    }
    Obey(connection);
  }

  // One request after the other; each is answered before the next is looked at.
  void Obey(Connection& connection) {
    while (!connection.over && !connection.waits) {
      const std::optional<std::string> message = connection.channel.NextMessage();
      if (!message) break;
      const Result<StoreRequest> request = ParseRequest(*message);
      if (!request.ok()) {
        Refuse(connection, request.error().what);
        return;
      }
      Perform(connection, request.value());
    }
    Flush(connection);
  }

  void Perform(Connection& connection, const StoreRequest& request) {
    if (request.op == StoreOp::kWill) {
      connection.will = request.keys.empty() ? std::nullopt : std::optional(request);
      connection.channel.Send(PrintReply({}));
      return;
    }
    const std::optional<StoreReply> reply = table_.Apply(request);
    if (reply) {
      connection.channel.Send(PrintReply(*reply));
      return;
    }
    constexpr int64_t kLong = int64_t{1} << 40;
    connection.waits = request;
    connection.waits_until =
        Clock::now() + std::chrono::milliseconds(std::clamp<int64_t>(request.number, 0, kLong));
  }

  void Flush(Connection& connection) {
    std::string& outgoing = connection.channel.outgoing();
    while (!outgoing.empty()) {
      const ssize_t sent =
          send(connection.socket.get(), outgoing.data(), outgoing.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno != EAGAIN) connection.over = true;
      if (sent <= 0) return;
      outgoing.erase(0, static_cast<size_t>(sent));
    }
  }

  void AnswerWaits() {
    for (Connection& connection : connections_) {
      if (!connection.waits || connection.over) continue;
      const std::optional<StoreReply> reply = table_.Apply(*connection.waits);
      if (reply) Answer(connection, *reply);
    }
  }

  void ExpireWaits() {
    for (Connection& connection : connections_) {
      if (connection.waits && Clock::now() >= connection.waits_until) {
        Answer(connection, {StoreAnswer::kTimedOut, ""});
      }
    }
  }

  void Answer(Connection& connection, const StoreReply& reply) {
    connection.waits.reset();
    connection.channel.Send(PrintReply(reply));
    Obey(connection);
  }

  void LeaveWill(Connection& connection) {
    if (!connection.will) return;
    table_.SetIfAbsent(connection.will->keys[0], connection.will->value);
    connection.will.reset();
  }

  void Accept() {
    while (true) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      const int number = accept4(listener_.socket.get(), reinterpret_cast<sockaddr*>(&address),
                                 &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (number < 0 && (errno == EMFILE || errno == ENFILE)) {
        const bool any = SendAwayUnseen();
        spare_ = OpenSpare();
        if (!any) return;
        continue;
      }
      if (number < 0) return;
      Descriptor socket(number);
      const std::string name = NameOf(address, size);
      if (listener_.place.here() && !OfThisUser(number)) {
        Note(name, "is of another user");
        continue;
      }
      const int yes = 1;
      setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      setsockopt(number, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
      if (MakeRoom()) {
        Welcome(std::move(socket), name);
      } else {
        Note(name, "came when all processes were there");
      }
    }
  }

  // No file is left for who comes: with the spare one it can be told to go.
  bool SendAwayUnseen() {
    if (!spare_.valid()) std::this_thread::sleep_for(kTick);  // others' files may be closed by then
    spare_.Close();
    const Descriptor unseen(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const bool any = unseen.valid();
    if (any) Note("somebody", "came when no more files may be open");
    return any;
  }

  static Descriptor OpenSpare() { return Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  static bool OfThisUser(int socket) {
    ucred who{};
    socklen_t size = sizeof who;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == getuid();
  }

  // The oldest of too many strangers goes: who belongs here is none any more within a moment. False
  // if there are too many of those who do.
  bool MakeRoom() {
    size_t strangers = 0, members = 0;
    Connection* oldest = nullptr;
    for (Connection& connection : connections_) {
      if (connection.over) continue;
      ++(connection.channel.open() ? members : strangers);
      if (!connection.channel.open() && oldest == nullptr) oldest = &connection;
    }
    if (strangers >= kMostStrangers) Refuse(*oldest, "gave no proof before others came");
    return members < most_members_;
  }

  void SendAwayTheSlow() {
    for (Connection& connection : connections_) {
      const bool slow = Clock::now() - connection.since > options_.proof_within;
      if (!connection.over && !connection.channel.open() && slow) {
        Refuse(connection, "gave no proof in time");
      }
    }
  }

  void Welcome(Descriptor socket, std::string name) {
    connections_.push_back(
        {std::move(socket), std::move(name),
         SealedChannel(SealedChannel::Side::kServer, options_.secret, RandomBytes()),
         Clock::now()});
  }

  void Refuse(Connection& connection, const std::string& why) {
    connection.over = true;
    connection.socket.Close();
    Note(connection.name, why);
  }

  void Note(const std::string& who, const std::string& why) {
    if (refused_++ == 0) last_refused_ = fmt::format("{} was refused: {}", who, why);
  }

  void SayNotes(bool at_end) {
    if (refused_ == 0 || (!at_end && Clock::now() - said_ < kNotePause)) return;
    options_.note(refused_ == 1 ? last_refused_
                                : fmt::format("{}; and {} more", last_refused_, refused_ - 1));
    refused_ = 0;
    said_ = Clock::now();
  }

  Listener listener_;
  StoreServerOptions options_;
  size_t most_members_;
  Descriptor wake_, spare_;
  std::list<Connection> connections_;
  StoreTable table_;
  int64_t refused_ = 0;  // and not said yet
  std::string last_refused_;
  Clock::time_point said_{};
  std::atomic<bool> ends_{false};
  std::thread thread_;  // last: it uses the rest
};

StoreServer::StoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreServer::~StoreServer() = default;

const MeetingPlace& StoreServer::place() const { return impl_->place(); }

Result<std::unique_ptr<StoreServer>> StoreServer::Start(const Seats& seats) {
  std::vector<Descriptor> ends = seats.TakeEnds();
  StoreServerOptions options{seats.secret()};
  options.members = static_cast<int>(ends.size());
  // They may be busy with other things before they sit down.
  options.proof_within = std::chrono::hours(24);
  return std::unique_ptr<StoreServer>(
      new StoreServer(std::make_unique<Impl>(Listener{}, std::move(ends), std::move(options))));
}

Result<std::unique_ptr<StoreServer>> StoreServer::Start(Listener listener,
                                                        StoreServerOptions options) {
  AllowManyFiles();
  return std::unique_ptr<StoreServer>(new StoreServer(
      std::make_unique<Impl>(std::move(listener), std::vector<Descriptor>(), std::move(options))));
}

}  // namespace heddle
