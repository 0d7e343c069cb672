#pragma once

#include <fmt/format.h>

#include <random>
#include <string>

#include "cluster/cluster.h"

namespace heddle {

// Devices of two types on a line of links with random bandwidths.
inline Cluster RandomCluster(std::mt19937& random, int devices) {
  std::string text = R"(schema = "heddle.cluster/1"
[device_type.fast]
flops = "10 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
[device_type.slow]
flops = "4 TFLOP/s"
memory = "MEMORY"
memory_bandwidth = "400 GB/s"
)";
  text.replace(text.find("MEMORY"), 6, random() % 3 == 0 ? "12 MiB" : "8 GiB");
  for (int d = 0; d < devices; ++d) {
    text += fmt::format("[[node]]\nname = \"n{}\"\ndevices = [{{ type = \"{}\" }}]\n", d,
                        random() % 2 == 0 ? "fast" : "slow");
  }
  for (int d = 0; d + 1 < devices; ++d) {
    const bool half = random() % 3 == 0;
    text += fmt::format(
        "[[link]]\nbetween = [\"n{}\", \"n{}\"]\nbandwidth = \"{} MB/s\"\nlatency = \"10 us\"\n{}",
        d, d + 1, 50 + random() % 2000, half ? "duplex = \"half\"\n" : "");
  }
  return ParseClusterToml(text, "random.toml").value();
}

}  // namespace heddle
