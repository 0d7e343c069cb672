#include "shaped/shaped_hosts.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "shell.h"

namespace heddle {
namespace {

constexpr double kHeaders = 1514.0 / 1448;

}  // namespace

ShapedHosts::ShapedHosts(std::string tag, int hosts) : tag_(std::move(tag)), hosts_(hosts) {
  (void)Script(fmt::format("remove {} {}", tag_, hosts_));  // what a run that was killed has left
  made_ = Script(fmt::format("make {} {}", tag_, hosts_));
}

ShapedHosts::~ShapedHosts() { (void)Script(fmt::format("remove {} {}", tag_, hosts_)); }

void ShapedHosts::Shape(int host, double bytes_per_second) const {
  (void)Script(fmt::format("shape {} {} {:.0f}", tag_, host, 8 * bytes_per_second * kHeaders));
}

std::string ShapedHosts::OnEach(const std::string& command, int ranks, int port,
                                const std::string& errors) const {
  std::string line = fmt::format(
      "export WORLD_SIZE={} MASTER_ADDR=10.77.0.1 MASTER_PORT={} "
      "HEDDLE_SECRET=among-shaped-hosts-only;",
      ranks, port);
  for (int rank = ranks - 1; rank >= 0; --rank) {
    line += fmt::format(" RANK={} ip netns exec {}n{} {}{}", rank, tag_, rank, command,
                        rank > 0 ? " > /dev/null 2>&1 &" : " 2> " + errors);
  }
  return line + "; wait";
}

bool ShapedHosts::Script(const std::string& words) const {
  const std::string line =
      "bash " HEDDLE_SOURCE_DIR "/tests/support/namespaces.sh " + words + " > /dev/null 2>&1";
  return std::system(line.c_str()) == 0;
}

}  // namespace heddle
