#include "run/launched_rank.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "base/text.h"

namespace heddle {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* ranks_here;  // how many of them are on this host; null: not told
};

// In this order: torchrun's variables are also what people set by hand.
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", nullptr},
};

Result<int64_t> Number(const Environment& environment, const char* name, int64_t least,
                       int64_t most) {
  const char* text = environment(name);
  if (text == nullptr) return BadInput(name, "is not set", "the launcher sets it");
  const auto number = ParseInteger(text);
  if (number && *number >= least && *number <= most) return *number;
  return BadInput(name, fmt::format("\"{}\" is not a number from {} to {}", text, least, most));
}

bool AllHere(const Environment& environment, const Launcher& launcher, int64_t ranks) {
  if (launcher.ranks_here != nullptr) {
    const Result<int64_t> here = Number(environment, launcher.ranks_here, 1, ranks);
    return here.ok() && here.value() == ranks;
  }
  const Result<int64_t> nodes = Number(environment, "SLURM_NNODES", 1, INT32_MAX);
  return nodes.ok() && nodes.value() == 1;
}

}  // namespace

Result<std::optional<LaunchedRank>> FindLaunchedRank(const Environment& environment, int64_t port) {
  for (const Launcher& launcher : kLaunchers) {
    if (environment(launcher.rank) == nullptr || environment(launcher.ranks) == nullptr) continue;
    LaunchedRank found;
    found.launcher = launcher.name;
    HEDDLE_ASSIGN(const int64_t ranks, Number(environment, launcher.ranks, 1, 1 << 20));
    HEDDLE_ASSIGN(const int64_t rank, Number(environment, launcher.rank, 0, ranks - 1));
    found.rank = static_cast<int32_t>(rank);
    found.ranks = static_cast<int32_t>(ranks);
    found.all_here = AllHere(environment, launcher, ranks);
    if (const char* address = environment("MASTER_ADDR")) {
      found.address = address;
    } else if (found.all_here) {
      found.address = "127.0.0.1";
    } else {
      return BadInput("MASTER_ADDR",
                      fmt::format("is not set, and {} does not say that all {} ranks are on this "
                                  "host",
                                  launcher.name, ranks),
                      "set it to the first rank's host, for all ranks");
    }
    if (port == 0) {
      HEDDLE_ASSIGN(port, Number(environment, "MASTER_PORT", 1, 65535));
    }
    found.port = static_cast<uint16_t>(port);
    return std::optional(found);
  }
  return std::optional<LaunchedRank>();
}

Result<std::string> AddressTowards(const std::string& host, uint16_t port) {
  const std::string where = fmt::format("{}:{}", host, port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list)) {
    return BadInput(where, fmt::format("is no host: {}", gai_strerror(error)), "check MASTER_ADDR");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  // Connecting a datagram socket sends nothing, but chooses the way.
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const int socket_number = socket(entry->ai_family, SOCK_DGRAM, 0);
    if (socket_number < 0) continue;
    sockaddr_storage mine{};
    socklen_t size = sizeof mine;
    char text[NI_MAXHOST] = "";
    const bool found = connect(socket_number, entry->ai_addr, entry->ai_addrlen) == 0 &&
                       getsockname(socket_number, reinterpret_cast<sockaddr*>(&mine), &size) == 0 &&
                       getnameinfo(reinterpret_cast<sockaddr*>(&mine), size, text, sizeof text,
                                   nullptr, 0, NI_NUMERICHOST) == 0;
    close(socket_number);
    if (found) return std::string(text);
  }
  return BadInput(where, "cannot be reached from here", "check MASTER_ADDR and the network");
}

}  // namespace heddle
