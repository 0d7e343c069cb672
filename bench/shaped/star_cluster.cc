#include "shaped/star_cluster.h"

#include <fmt/format.h>

namespace heddle {

std::string StarClusterText(const std::vector<StarNode>& nodes, double latency) {
  std::string text = "schema = \"heddle.cluster/1\"\n";
  std::string links;
  for (size_t k = 0; k < nodes.size(); ++k) {
    const StarNode& node = nodes[k];
    text += fmt::format(
        "[device_type.x{}]\nflops = \"{:.6f} GFLOP/s\"\nmemory = \"16 GiB\"\n"
        "memory_bandwidth = \"{:.6f} GB/s\"\n",
        k, node.flops / 1e9,
        (node.memory_bandwidth > 0 ? node.memory_bandwidth : node.flops) / 1e9);
    if (node.message_bandwidth > 0) {
      text += fmt::format("message_bandwidth = \"{:.6f} GB/s\"\n", node.message_bandwidth / 1e9);
    }
    links += fmt::format(
        "[[node]]\nname = \"n{}\"\ndevices = [{{ type = \"x{}\" }}]\n[[link]]\nbetween = "
        "[\"n{}\", \"s\"]\nbandwidth = \"{:.6f} MB/s\"\nlatency = \"{:.3f} us\"\n",
        k, k, k, node.bytes_per_second / 1e6, latency * 1e6);
  }
  return text + "[[switch]]\nname = \"s\"\n" + links;
}

}  // namespace heddle
