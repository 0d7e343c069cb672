// A cluster file: nodes of one device each around a switch, as shaped hosts are.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct StarNode {
  double flops = 1e9;             // a second, of its device
  double bytes_per_second = 1e8;  // of its link
  double memory_bandwidth = 0;    // bytes a second; 0: as many as flops
  double message_bandwidth = 0;   // bytes a second that the device itself moves; 0: not its work
};

// `latency`: of each link, in seconds.
std::string StarClusterText(const std::vector<StarNode>& nodes, double latency);

}  // namespace heddle
