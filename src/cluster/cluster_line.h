// A cluster in one line, for the command line.
//
//   4x8 a100-80gb, nvlink, ib 8x200 Gbit/s; 2x4 rtx-3090, pcie
//   here
//
//   cluster = "here" | group { ";" group }
//   group   = [ [ nodes "x" ] devices ] device { "," link }
//   link    = name [ number "x" ] [ bandwidth ]
//
// Devices and links are those of `heddle devices`; besides, `nvlink` and `pcie` are the device's
// own generation, and `ib` and `ethernet` go with a bandwidth of one's own. A link is inside the
// nodes or between them, by its kind; inside, `number` is of links per device, between, of ports
// per node. What is left out: inside a node its devices' PCI Express, between nodes ethernet-10.
// The nodes of the first group are a0, a1, … (a, if it is one), those of the second b0, b1, …;
// inside a node a switch joins the devices, between nodes the switch "net".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/cluster_spec.h"

namespace heddle {

// Whether the text is the path of a file rather than such a line.
bool IsClusterFile(std::string_view text);

// Errors say at which character of the line.
Result<ClusterSpec> ParseClusterLine(std::string_view text);

}  // namespace heddle
