#include "run/share/shaped_links.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/child_process.h"

namespace heddle {
namespace {

constexpr size_t kMostHosts = 250;  // of the addresses' last number
constexpr char kWhere[] = "shaped links";

Error NotPermitted(const std::string& what) {
  return BadInput(kWhere, "not permitted here: " + what,
                  "network namespaces need root: run it as root, or under unshare "
                  "--map-root-user; or leave --shaped out and give --emulate");
}

// A process that is in a new network namespace, as long as it lives.
Result<ChildProcess> StartHolder() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return NotPermitted(std::strerror(errno));
  const auto hold = [&] {
    const int error = unshare(CLONE_NEWNET) == 0 ? 0 : errno;
    if (write(ends[1], &error, sizeof error) != sizeof error) return 1;
    while (true) pause();
  };
  Result<ChildProcess> holder = ChildProcess::Fork(hold, kWhere);
  close(ends[1]);
  int error = EIO;
  const bool told = holder.ok() && read(ends[0], &error, sizeof error) == sizeof error;
  close(ends[0]);
  if (!holder.ok()) return holder;
  if (!told || error != 0) return NotPermitted(std::strerror(error));
  return holder;
}

// In the child that is to be a tool of iproute2: they lie where only root's PATH leads.
int BecomeTool(const std::vector<std::string>& words) {
  for (const char* folder : {"", "/usr/sbin/", "/sbin/"}) {
    std::vector<std::string> there = words;
    there[0] = folder + words[0];
    Become(there);
  }
  const std::string missing = words[0] + ": " + std::strerror(errno) + " (Debian: iproute2)";
  (void)!write(STDERR_FILENO, missing.data(), missing.size());
  return 127;
}

// Runs `ip …` or `tc …` in the namespace.
Status Tool(int space, const std::string& line) {
  std::vector<std::string> words;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return NotPermitted(std::strerror(errno));
  const auto life = [&] {
    dup2(ends[1], STDERR_FILENO);
    return setns(space, CLONE_NEWNET) == 0 ? BecomeTool(words) : 126;
  };
  Result<ChildProcess> child = ChildProcess::Fork(life, words[0]);
  close(ends[1]);
  std::string said;
  char block[256];
  for (ssize_t count = 0; (count = read(ends[0], block, sizeof block)) > 0;) {
    said.append(block, static_cast<size_t>(count));
  }
  close(ends[0]);
  if (!child.ok()) return child.error();
  if (std::move(child).value().Wait().well()) return Ok();
  said.erase(std::find(said.begin(), said.end(), '\n'), said.end());
  return NotPermitted(fmt::format("{}: {}", line, said));
}

// What a device sends goes out at this rate. Little may pass at once, or short messages would not
// notice the link; what waits is never dropped, since TCP takes 0.2 s to notice.
std::string Shaping(const std::string& device, double bytes_per_second) {
  constexpr double kPacket = 1514, kPayload = 1448;  // Ethernet's and TCP's headers on top
  constexpr double kAtOnceSeconds = 0.5e-3, kLeastAtOnce = 2 * kPacket, kMostWaiting = 64e6;
  const double wire = bytes_per_second * kPacket / kPayload;
  return fmt::format("tc qdisc add dev {} root tbf rate {:.0f}bit burst {:.0f} limit {:.0f}",
                     device, 8 * wire, std::max(kLeastAtOnce, wire * kAtOnceSeconds), kMostWaiting);
}

// A connection that rested does not start slowly again: the links it has are the only ones.
Status KeepWindows(int space) {
  const auto life = [&] {
    if (setns(space, CLONE_NEWNET) != 0) return 1;
    const int file = open("/proc/sys/net/ipv4/tcp_slow_start_after_idle", O_WRONLY | O_CLOEXEC);
    return file >= 0 && write(file, "0", 1) == 1 ? 0 : 1;
  };
  HEDDLE_ASSIGN(ChildProcess child, ChildProcess::Fork(life, kWhere));
  if (child.Wait().well()) return Ok();
  return NotPermitted("setting tcp_slow_start_after_idle");
}

Status ConnectHost(int hub, int host, pid_t holder, int32_t k, const HostRates& rates) {
  // Larger packets than the wire's would each pass at once.
  const std::string plug = fmt::format("plug{}", k);
  const std::string lines_of_hub[] = {
      fmt::format("ip link add name {} gso_max_size 1514 type veth peer name eth0 netns {}", plug,
                  holder),
      fmt::format("ip link set dev {} master hub", plug),
      fmt::format("ip link set dev {} up", plug), Shaping(plug, rates.down)};
  const std::string lines_of_host[] = {
      "ip link set dev lo up",
      "ip link set dev eth0 gso_max_size 1514",
      fmt::format("ip addr add {}/24 dev eth0", ShapedLinks::AddressOf(k)),
      "ip link set dev eth0 up",
      "ip route change 10.77.0.0/24 dev eth0 initcwnd 64",
      Shaping("eth0", rates.up)};
  for (const std::string& line : lines_of_hub) HEDDLE_RETURN_IF_ERROR(Tool(hub, line));
  for (const std::string& line : lines_of_host) HEDDLE_RETURN_IF_ERROR(Tool(host, line));
  return KeepWindows(host);
}

using Wires = std::set<int32_t>;

Wires WiresOf(const Route& route) {
  Wires wires;
  for (const WireId id : route.wires) wires.insert(id.value);
  return wires;
}

bool Meet(const Wires& a, const Wires& b) {
  return std::any_of(a.begin(), a.end(), [&](int32_t wire) { return b.contains(wire); });
}

}  // namespace

struct ShapedLinks::Open {
  std::vector<int> files;
  Open() = default;
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  ~Open() {
    for (const int file : files) close(file);
  }
  Status Add(const ChildProcess& holder) {
    const std::string path = fmt::format("/proc/{}/ns/net", holder.pid());
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return NotPermitted(path + ": " + std::strerror(errno));
    files.push_back(file);
    return Ok();
  }
};

Result<std::vector<HostRates>> HostRatesOf(const Cluster& cluster, const std::vector<int>& nodes) {
  const size_t count = nodes.size();
  const auto route = [&](size_t from, size_t to) -> const Route& {
    const auto device = [&](size_t k) {
      return cluster.nodes()[static_cast<size_t>(nodes[k])].devices[0];
    };
    return cluster.RouteBetween(device(from), device(to));
  };
  const auto name = [&](size_t k) { return cluster.nodes()[static_cast<size_t>(nodes[k])].name; };
  std::vector<HostRates> rates(count);
  struct Way {
    size_t from, to;
    Wires wires;
  };
  std::vector<Way> ways;
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      if (from == to) continue;
      const Route& found = route(from, to);
      rates[from].up = std::max(rates[from].up, found.bandwidth.value);
      rates[to].down = std::max(rates[to].down, found.bandwidth.value);
      ways.push_back({from, to, WiresOf(found)});
    }
  }
  const auto unlike = [&](const Way& a, const Way& b, const std::string& what) {
    return BadInput(kWhere,
                    fmt::format("{} to {} and {} to {} {}", name(a.from), name(a.to), name(b.from),
                                name(b.to), what),
                    "the nodes must each have one link to one switch, or be two with one link, in "
                    "both directions at once; --emulate has every topology");
  };
  for (const Way& a : ways) {
    const double star = std::min(rates[a.from].up, rates[a.to].down);
    const double wanted = route(a.from, a.to).bandwidth.value;
    if (std::abs(star - wanted) > 0.01 * wanted) return unlike(a, a, "is slower than their links");
    for (const Way& b : ways) {
      const bool same_end = a.from == b.from || a.to == b.to;
      if (Meet(a.wires, b.wires) == same_end) continue;
      return unlike(a, b, same_end ? "have links of their own" : "share a link");
    }
  }
  return rates;
}

Status ShapedLinks::Permitted() {
  HEDDLE_RETURN_IF_ERROR(StartHolder());
  return Ok();
}

Result<ShapedLinks> ShapedLinks::Make(const std::vector<HostRates>& hosts) {
  if (hosts.size() < 2 || hosts.size() > kMostHosts) {
    return BadInput(kWhere, fmt::format("{} nodes", hosts.size()),
                    fmt::format("expected 2 to {}", kMostHosts));
  }
  auto open = std::make_shared<Open>();
  HEDDLE_ASSIGN(const ChildProcess hub, StartHolder());
  std::vector<ChildProcess> holders;
  for (size_t k = 0; k < hosts.size(); ++k) {
    HEDDLE_ASSIGN(ChildProcess holder, StartHolder());
    holders.push_back(std::move(holder));
    HEDDLE_RETURN_IF_ERROR(open->Add(holders.back()));
  }
  HEDDLE_RETURN_IF_ERROR(open->Add(hub));
  const int hub_space = open->files.back();
  HEDDLE_RETURN_IF_ERROR(Tool(hub_space, "ip link add name hub type bridge"));
  HEDDLE_RETURN_IF_ERROR(Tool(hub_space, "ip link set dev hub up"));
  for (size_t k = 0; k < hosts.size(); ++k) {
    HEDDLE_RETURN_IF_ERROR(ConnectHost(hub_space, open->files[k], holders[k].pid(),
                                       static_cast<int32_t>(k), hosts[k]));
  }
  ShapedLinks links;
  links.open_ = std::move(open);
  return links;
}

Status ShapedLinks::Enter(int32_t host) const {
  if (setns(open_->files[static_cast<size_t>(host)], CLONE_NEWNET) == 0) return Ok();
  return Error{ErrorKind::kRunFailed, kWhere, std::string("cannot enter: ") + std::strerror(errno),
               ""};
}

std::string ShapedLinks::AddressOf(int32_t host) { return fmt::format("10.77.0.{}", host + 1); }

}  // namespace heddle
