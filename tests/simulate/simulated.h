// Simulated: Programs and clusters given as text, and what the simulator makes of them as text.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "program/check/check.h"
#include "program/golden_programs.h"
#include "simulate/simulator.h"

namespace heddle {

// `rest` follows the schema and one device type, "gpu".
inline Cluster ClusterOf(const std::string& rest) {
  Result<Cluster> cluster = ParseClusterToml(R"(schema = "heddle.cluster/1"
[device_type.gpu]
flops = "10 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
)" + rest,
                                             "test.toml");
  EXPECT_TRUE(cluster.ok()) << cluster.error().ToString();
  return std::move(cluster).value();
}

// One node "a"; a link between every two devices.
inline Cluster MeshOf(int devices, const std::string& bandwidth,
                      const std::string& latency = "0 s") {
  return ClusterOf(
      fmt::format("[[node]]\nname = \"a\"\ndevices = [{{ type = \"gpu\", count = {} }}]\n"
                  "link = {{ bandwidth = \"{}\", latency = \"{}\" }}\n",
                  devices, bandwidth, latency));
}

// Nodes "a" and "b" of two devices each, and one link between the nodes with `more` lines.
inline Cluster TwoNodes(const std::string& bandwidth, const std::string& latency = "0 s",
                        const std::string& more = "", const std::string& inside = "1000 TB/s") {
  std::string text;
  for (const char* name : {"a", "b"}) {
    text += fmt::format(
        "[[node]]\nname = \"{}\"\ndevices = [{{ type = \"gpu\", count = 2 }}]\n"
        "link = {{ bandwidth = \"{}\", latency = \"0 s\" }}\n",
        name, inside);
  }
  return ClusterOf(text + fmt::format("[[link]]\nbetween = [\"a\", \"b\"]\nbandwidth = \"{}\"\n"
                                      "latency = \"{}\"\n{}\n",
                                      bandwidth, latency, more));
}

inline Simulation SimulationOf(const Program& program, const Cluster& cluster,
                               const SimulateOptions& options = {}) {
  EXPECT_TRUE(CheckProgram(program).ok()) << CheckProgram(program).findings[0].message;
  const Result<SegmentSeconds> seconds = CostSegments(program, cluster, nullptr);
  EXPECT_TRUE(seconds.ok()) << seconds.error().ToString();
  Result<Simulation> simulation = Simulate(program, cluster, seconds.value(), options);
  EXPECT_TRUE(simulation.ok()) << simulation.error().ToString();
  return std::move(simulation).value();
}

inline Simulation SimulationOf(const std::string& text, const Cluster& cluster,
                               const SimulateOptions& options = {}) {
  const Result<Program> program = ParseProgram(text, "test.heddle");
  EXPECT_TRUE(program.ok()) << program.error().ToString();
  return SimulationOf(program.value(), cluster, options);
}

// What happened on a lane in one repetition, times in units of `unit` seconds, to three decimals:
// "F0#0 0-1, F0#1 1-2".
inline std::string LaneText(const Simulation& simulation, const std::string& lane,
                            double unit = 1e-3, int repetition = 0) {
  const auto number = [&](Seconds time) {
    return fmt::format("{:g}", std::round(time.value / unit * 1000) / 1000);
  };
  std::string text;
  for (const TimelineEvent& event : simulation.timeline.events) {
    if (simulation.timeline.lanes[static_cast<size_t>(event.lane)].name != lane) continue;
    if (event.repetition != repetition) continue;
    text += text.empty() ? "" : ", ";
    text += simulation.timeline.labels[static_cast<size_t>(event.label)];
    if (event.microbatch >= 0) text += fmt::format("#{}", event.microbatch);
    text += " " + number(event.start) + "-" + number(event.end);
  }
  return text;
}

}  // namespace heddle
