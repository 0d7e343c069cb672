// Cluster files as text for the tests: the parts that most of them do not care about.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cluster/cluster.h"

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "no \"" << (part) << "\" in:\n" << (text)

namespace heddle {

// The schema and one device type, "gpu".
inline const std::string kPreamble = R"(
schema = "heddle.cluster/1"
[device_type.gpu]
flops = "10 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
)";

// A node of `devices` gpus, each pair linked; `extra` is more lines for the node.
inline std::string NodeText(const std::string& name, int devices, const std::string& extra = "") {
  return "[[node]]\nname = \"" + name +
         "\"\ndevices = [{ type = \"gpu\", count = " + std::to_string(devices) +
         " }]\nlink = { bandwidth = \"10 GB/s\", latency = \"5 us\" }\n" + extra + "\n";
}

// A node without links between its devices.
inline std::string BareNodeText(const std::string& name, int devices,
                                const std::string& extra = "") {
  return "[[node]]\nname = \"" + name +
         "\"\ndevices = [{ type = \"gpu\", count = " + std::to_string(devices) + " }]\n" + extra +
         "\n";
}

inline std::string SwitchText(const std::string& name, const std::string& extra = "") {
  return "[[switch]]\nname = \"" + name + "\"\n" + extra + "\n";
}

inline std::string LinkText(const std::string& a, const std::string& b,
                            const std::string& bandwidth = "1 GB/s",
                            const std::string& latency = "20 us", const std::string& extra = "") {
  return "[[link]]\nbetween = [\"" + a + "\", \"" + b + "\"]\nbandwidth = \"" + bandwidth +
         "\"\nlatency = \"" + latency + "\"\n" + extra + "\n";
}

// The cluster of a text that must be good; `text` follows the preamble.
inline Cluster GoodCluster(const std::string& text) {
  Result<Cluster> cluster = ParseClusterToml(kPreamble + text, "test.toml");
  EXPECT_TRUE(cluster.ok()) << (cluster.ok() ? "" : cluster.error().ToString());
  return std::move(cluster).value();
}

// The error of a whole text that must be bad.
inline std::string ErrorOf(const std::string& whole_text) {
  const Result<Cluster> cluster = ParseClusterToml(whole_text, "test.toml");
  EXPECT_FALSE(cluster.ok()) << whole_text;
  if (cluster.ok()) return "";
  EXPECT_EQ(cluster.error().kind, ErrorKind::kBadInput);
  return cluster.error().ToString();
}

// The names of the wires from one device to another: "a:0->a:1 a:1->b:0".
inline std::string RouteText(const Cluster& cluster, const std::string& from,
                             const std::string& to) {
  const auto source = cluster.FindDevice(from);
  const auto target = cluster.FindDevice(to);
  EXPECT_TRUE(source && target) << from << " " << to;
  std::string text;
  for (const WireId wire : cluster.RouteBetween(*source, *target).wires) {
    text += (text.empty() ? "" : " ") + cluster.wires()[static_cast<size_t>(wire.value)].name;
  }
  return text;
}

}  // namespace heddle
