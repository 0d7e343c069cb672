#include "run/meet/meeting_place.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

namespace heddle {
namespace {

constexpr int kSocketFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr int kBacklog = 1024;

Error Failed(const std::string& where, const std::string& what, const std::string& hint) {
  return {ErrorKind::kRunFailed, where, what, hint};
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<Addresses> Resolve(const MeetingPlace& place) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(place.address.c_str(), std::to_string(place.port).c_str(), &hints, &list);
  if (error != 0) {
    return Failed(place.ToString(), fmt::format("is no host: {}", gai_strerror(error)),
                  "check MASTER_ADDR");
  }
  return Addresses(list, &freeaddrinfo);
}

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  HEDDLE_CHECK(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::string LockOf(const MeetingPlace& place) { return place.socket + ".lock"; }

// Whether the open file is the one that the path leads to.
bool IsNamed(const Descriptor& file, const std::string& path) {
  struct stat open {
  }, named{};
  return fstat(file.get(), &open) == 0 && lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

std::string FolderOf(const MeetingPlace& place) {
  return std::filesystem::path(place.socket).parent_path();
}

// While this lives nobody else claims a name in the folder, or clears it up.
class FolderHeld {
 public:
  explicit FolderHeld(const std::string& folder)
      : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (folder_.valid() && flock(folder_.get(), LOCK_EX) != 0 && errno == EINTR) continue;
  }

 private:
  Descriptor folder_;
};

// "29400.lock", and nothing else.
bool IsLockName(const std::string& name) {
  const std::string number = name.substr(0, name.find('.'));
  return name == number + ".lock" && !number.empty() && number.size() <= 5 &&
         number.find_first_not_of("0123456789") == std::string::npos;
}

// Processes that were killed have left their files behind, and nobody else would ever remove them.
// REQUIRES: the folder is held; so nobody meets a lock that is held only to be removed.
void ClearUp(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!IsLockName(entry.path().filename())) continue;
    const std::string lock = entry.path();
    const Descriptor file(open(lock.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.valid() || flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;  // somebody lives
    if (!IsNamed(file, lock)) continue;
    unlink(lock.substr(0, lock.size() - std::strlen(".lock")).c_str());
    unlink(lock.c_str());
  }
}

Result<Listener> ListenHere(const MeetingPlace& place) {
  Listener listener;
  listener.place = place;
  const FolderHeld held(FolderOf(place));
  // A killed process leaves the files behind, but not the lock.
  const std::string lock = LockOf(place);
  do {
    listener.lock = Descriptor(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!listener.lock.valid() || flock(listener.lock.get(), LOCK_EX | LOCK_NB) != 0) {
      const bool taken = errno == EWOULDBLOCK;
      listener.lock = Descriptor();  // another's, and not to be removed
      return Failed(place.ToString(),
                    taken ? "cannot be listened on: another run of yours meets there"
                          : std::string("cannot be listened on: ") + std::strerror(errno),
                    "choose another number with --port");
    }
  } while (!IsNamed(listener.lock, lock));  // its last holder removed it in between
  unlink(place.socket.c_str());
  listener.socket = Descriptor(socket(AF_UNIX, SOCK_STREAM | kSocketFlags, 0));
  const sockaddr_un address = UnixAddress(place.socket);
  const bool listens = listener.socket.valid() &&
                       bind(listener.socket.get(), reinterpret_cast<const sockaddr*>(&address),
                            sizeof address) == 0 &&
                       chmod(place.socket.c_str(), 0600) == 0 &&
                       listen(listener.socket.get(), kBacklog) == 0;
  if (listens) {
    ClearUp(FolderOf(place));
    return listener;
  }
  return Failed(place.ToString(), std::string("cannot be listened on: ") + std::strerror(errno),
                "choose another number with --port");
}

uint16_t PortOf(int socket) {
  sockaddr_storage mine{};
  socklen_t size = sizeof mine;
  getsockname(socket, reinterpret_cast<sockaddr*>(&mine), &size);
  return ntohs(mine.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(mine).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(mine).sin_port);
}

// Until the connection stands, or why it does not.
int FinishConnecting(int socket, std::chrono::milliseconds limit) {
  pollfd wanted{socket, POLLOUT, 0};
  const int count = poll(&wanted, 1, static_cast<int>(limit.count()));
  if (count == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  if (count < 0 || getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

int Connect(int socket, const sockaddr* address, socklen_t size, std::chrono::milliseconds limit) {
  if (connect(socket, address, size) == 0) return 0;
  return errno == EINPROGRESS ? FinishConnecting(socket, limit) : errno;
}

}  // namespace

std::string MeetingPlace::ToString() const {
  return here() ? socket : fmt::format("{}:{}", address, port);
}

Result<MeetingPlace> PlaceOnThisHost(uint16_t number) {
  const std::string folder = fmt::format("/tmp/heddle-{}", getuid());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Failed(folder, std::strerror(errno), "processes of one host meet there");
  }
  struct stat state {};
  if (lstat(folder.c_str(), &state) != 0) return Failed(folder, std::strerror(errno), "");
  if (!S_ISDIR(state.st_mode) || state.st_uid != getuid() ||
      (state.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Failed(folder, "is not a folder of this user alone",
                  "remove it, or set HEDDLE_SECRET for all processes: they then meet at a port");
  }
  return MeetingPlace{fmt::format("{}/{}", folder, number), "", number};
}

Listener::~Listener() {
  if (!lock.valid()) return;
  unlink(place.socket.c_str());
  unlink(LockOf(place).c_str());  // last: whoever waits for the name has both to himself
}

Result<Listener> Listen(const MeetingPlace& place) {
  if (place.here()) return ListenHere(place);
  HEDDLE_ASSIGN(const Addresses addresses, Resolve(place));
  std::string why;
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    Listener listener;
    listener.place = place;
    listener.socket = Descriptor(socket(entry->ai_family, SOCK_STREAM | kSocketFlags, 0));
    const int yes = 1;
    setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener.socket.get(), entry->ai_addr, entry->ai_addrlen) == 0 &&
        listen(listener.socket.get(), kBacklog) == 0) {
      listener.place.port = PortOf(listener.socket.get());
      return listener;
    }
    why = std::strerror(errno);
  }
  return Failed(place.ToString(), "cannot be listened on: " + why,
                "choose another port with --port, or this host's own address with --interface");
}

Result<Descriptor> Reach(const MeetingPlace& place, std::chrono::milliseconds limit) {
  int error = 0;
  if (place.here()) {
    Descriptor here(socket(AF_UNIX, SOCK_STREAM | kSocketFlags, 0));
    const sockaddr_un address = UnixAddress(place.socket);
    error = Connect(here.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address, limit);
    if (error == 0) return here;
    return Failed(place.ToString(), std::strerror(error), "");
  }
  HEDDLE_ASSIGN(const Addresses addresses, Resolve(place));
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    Descriptor there(socket(entry->ai_family, SOCK_STREAM | kSocketFlags, 0));
    error = Connect(there.get(), entry->ai_addr, entry->ai_addrlen, limit);
    if (error != 0) continue;
    const int yes = 1;
    setsockopt(there.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(there.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    return there;
  }
  return Failed(place.ToString(), std::strerror(error), "");
}

bool IsLoopback(const std::string& address) {
  in_addr four{};
  if (inet_pton(AF_INET, address.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  return address == "localhost" || address == "::1";
}

Result<std::string> AddressOfInterface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return name;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  bool known = false;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (name != entry->ifa_name) continue;
      known = true;
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      char text[NI_MAXHOST] = "";
      const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (getnameinfo(entry->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) {
        return std::string(text);
      }
    }
  }
  if (known) return BadInput("--interface", fmt::format("{} has no address", name));
  return name;
}

}  // namespace heddle
