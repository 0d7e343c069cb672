// Jobs that share two devices, in files; and what a share of them left behind.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "base/json_field.h"
#include "support/scratch_folder.h"

namespace heddle {

// Two nodes of one device; jobs wait for their gradients about as long as they compute.
inline constexpr char kShareCluster[] = R"(schema = "heddle.cluster/1"
[device_type.cpu]
flops = "1 GFLOP/s"
memory = "4 GiB"
memory_bandwidth = "1 GB/s"
[[node]]
name = "a"
devices = [{ type = "cpu" }]
[[node]]
name = "b"
devices = [{ type = "cpu" }]
[[link]]
between = ["a", "b"]
bandwidth = "10 MB/s"
latency = "50 us"
)";

// Jobs called a, b, c …; the path of their file.
inline std::string MakeShareJobs(const ScratchFolder& folder, int count, int steps,
                                 const std::string& share = "") {
  EXPECT_TRUE(WriteFile(folder / "cluster.toml", kShareCluster).ok());
  std::string text =
      "schema = \"heddle.jobs/1\"\ncluster = \"cluster.toml\"\n[share]\nminimum_gain = 0\n" +
      share + "\n";
  for (int k = 0; k < count; ++k) {
    text += std::string("[[job]]\nname = \"") + static_cast<char>('a' + k) +
            "\"\nmodel = \"mlp?layers=3&hidden=64&inputs=" + std::to_string(32 + 8 * k) +
            "\"\nbatch = 256\nsteps = " + std::to_string(steps) + "\n";
  }
  const std::string path = folder / ("jobs" + std::to_string(count) + ".toml");
  EXPECT_TRUE(WriteFile(path, text).ok());
  return path;
}

// What a rank of a job noted down.
inline Json ShareNotes(const std::string& directory, const std::string& phase,
                       const std::string& job, int rank = 0) {
  const std::string path =
      directory + "/" + phase + "/" + job + "/rank" + std::to_string(rank) + ".json";
  const Result<std::string> text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << path;
  return text.ok() ? ParseJson(text.value(), path).value() : Json();
}

}  // namespace heddle
