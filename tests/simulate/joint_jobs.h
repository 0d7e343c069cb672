// Jobs of one compute and one all-reduce, for tests of several jobs on the same devices.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "simulate/joint.h"
#include "simulated.h"

namespace heddle {

// Repeats: compute, then communicate. In milliseconds; communication is in whole ones.
struct SimpleJob {
  double compute = 1;
  int communicate = 1;
};

// Two devices; an all-reduce of n floats over both takes n milliseconds.
inline Cluster MillisecondCluster() { return MeshOf(2, "4 kB/s"); }

inline std::string TextOf(const SimpleJob& job) {
  const std::string list =
      job.communicate > 0 ? "  compute C\n  all-reduce g over all ring\n" : "  compute C\n";
  return fmt::format(R"(heddle-program 1
strategy test
samples 1 as 1
updates 0
layers 0
device 0 "a:0" holds g
device 1 "a:1" holds g
group all 0 1
tensor g f32[{}] state
segment C other time {} s
  changes g
body
on 0
{}on 1
{})",
                     std::max(1, job.communicate), job.compute / 1000, list, list);
}

// Programs that stay where they are, and what the simulator wants of them.
class JointFixture {
 public:
  JointFixture(const std::vector<std::string>& texts, Cluster cluster, bool whole_turns = true)
      : cluster_(std::move(cluster)) {
    for (const std::string& text : texts) {
      Result<Program> program = ParseProgram(text, "test.heddle");
      EXPECT_TRUE(program.ok()) << program.error().ToString();
      programs_.push_back(std::move(program).value());
      EXPECT_TRUE(CheckProgram(programs_.back()).ok());
      Result<SegmentSeconds> seconds = CostSegments(programs_.back(), cluster_, nullptr);
      EXPECT_TRUE(seconds.ok());
      seconds_.push_back(std::move(seconds).value());
      jobs.push_back({std::string(1, static_cast<char>('A' + jobs.size())), &programs_.back(),
                      &seconds_.back(), whole_turns});
    }
  }

  JointSimulation Simulate(const JointOptions& options = {}) const {
    Result<JointSimulation> simulation = SimulateJoint(jobs, cluster_, options);
    EXPECT_TRUE(simulation.ok()) << simulation.error().ToString();
    return std::move(simulation).value();
  }

  const Cluster& cluster() const { return cluster_; }

  std::vector<JointJob> jobs;

 private:
  Cluster cluster_;
  std::deque<Program> programs_;
  std::deque<SegmentSeconds> seconds_;
};

inline JointFixture FixtureOf(const std::vector<SimpleJob>& jobs) {
  std::vector<std::string> texts;
  for (const SimpleJob& job : jobs) texts.push_back(TextOf(job));
  return JointFixture(texts, MillisecondCluster());
}

// T* = max(sum of compute, sum of communication, longest job), in seconds.
inline double BestPeriod(const std::vector<SimpleJob>& jobs) {
  double compute = 0, communicate = 0, longest = 0;
  for (const SimpleJob& job : jobs) {
    compute += job.compute;
    communicate += job.communicate;
    longest = std::max(longest, job.compute + job.communicate);
  }
  return std::max({compute, communicate, longest}) / 1000;
}

}  // namespace heddle
