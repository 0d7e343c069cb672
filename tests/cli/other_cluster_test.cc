// A plan on another cluster than its own.

#include <gtest/gtest.h>

#include "base/json_field.h"
#include "run_heddle.h"
#include "support/places.h"

namespace heddle {
namespace {

// mixed4 with every `from` replaced.
std::string Mixed4(const std::vector<std::pair<std::string, std::string>>& replaced) {
  std::string text = ReadFile(ClusterFile("mixed4")).value();
  for (const auto& [from, to] : replaced) {
    for (size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

class OtherClusterTest : public testing::Test {
 protected:
  void MakePlan(const std::string& arguments) {
    const Ran ran = RunHeddle("plan --cluster " + ClusterFile("mixed4") + " -o " + plan_.path() +
                              " " + arguments);
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
  }

  Json JsonOf(const std::string& arguments) {
    const Ran ran = RunHeddle(arguments);
    EXPECT_EQ(ran.exit_code, 0) << arguments << "\n" << ran.err;
    return ParseJson(ran.out, arguments).value();
  }

  TemporaryFile plan_;
};

TEST_F(OtherClusterTest, ByNameTheSameAsPlannedThere) {
  MakePlan("--strategy dp --model tiny-mlp --batch 32 --microbatches 1");
  const TemporaryFile slow(Mixed4({{"10 Gbit/s", "1 Gbit/s"}}));
  const Json own = JsonOf("simulate --json " + plan_.path());
  const Json there = JsonOf("simulate --json " + plan_.path() + " --cluster " + slow.path());
  EXPECT_TRUE(own["other_cluster"].is_null());
  EXPECT_EQ(there["other_cluster"]["devices_by"], "name");
  EXPECT_GT(there["iteration_seconds"].get<double>(), own["iteration_seconds"].get<double>());
  const Json planned =
      JsonOf("plan --json --strategy dp --model tiny-mlp --batch 32 --microbatches 1 --cluster " +
             slow.path());
  EXPECT_EQ(there["iteration_seconds"], planned["iteration_seconds"]);
  EXPECT_EQ(there["lower_bound_seconds"], planned["lower_bound_seconds"]);
}

TEST_F(OtherClusterTest, ByTypeWhereNamesDiffer) {
  MakePlan("--strategy 1f1b --model tiny-mlp --batch 32");
  const TemporaryFile renamed(Mixed4({{"\"a\"", "\"x\""}, {"\"b\"", "\"y\""}}));
  const Json own = JsonOf("simulate --json " + plan_.path());
  const Json there = JsonOf("simulate --json " + plan_.path() + " --cluster " + renamed.path());
  EXPECT_EQ(there["other_cluster"]["devices_by"], "type");
  EXPECT_EQ(there["other_cluster"]["devices"][2], Json({{"plan", "b:0"}, {"device", "y:0"}}));
  EXPECT_EQ(there["iteration_seconds"], own["iteration_seconds"]);
  EXPECT_EQ(there["memory"][0]["device"], "x:0");
  const Ran text = RunHeddle("simulate " + plan_.path() + " --cluster " + renamed.path());
  EXPECT_NE(text.out.find("not the plan's own cluster"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("y:1 │"), std::string::npos) << text.out;
  EXPECT_NE(RunHeddle("lower " + plan_.path() + " --cluster " + renamed.path()).out.find("x:0"),
            std::string::npos);
}

TEST_F(OtherClusterTest, DividedTensorsMoveToo) {
  MakePlan("--strategy tensor-parallel --model tiny-mlp --batch 32");
  const TemporaryFile renamed(Mixed4({{"\"a\"", "\"x\""}}));
  const Json there = JsonOf("simulate --json " + plan_.path() + " --cluster " + renamed.path());
  EXPECT_EQ(there["iteration_seconds"],
            JsonOf("simulate --json " + plan_.path())["iteration_seconds"]);
}

TEST_F(OtherClusterTest, WhatCannotBeMatchedIsRefused) {
  MakePlan("--strategy 1f1b --model tiny-mlp --batch 32");
  for (const char* command : {"simulate ", "check ", "lower "}) {
    const Ran ran = RunHeddle(command + plan_.path() + " --cluster " + ClusterFile("laptop"));
    EXPECT_EQ(ran.exit_code, 4) << command << ran.err;
    EXPECT_NE(ran.err.find("the plan uses 2 devices of the type"), std::string::npos) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(OtherClusterTest, MemoryThatNoLongerFitsIsTold) {
  MakePlan("--strategy 1f1b --model gpt --batch 16");
  const TemporaryFile small(Mixed4({{"16 GiB", "100 MiB"}}));
  const Ran ran = RunHeddle("simulate " + plan_.path() + " --cluster " + small.path());
  EXPECT_EQ(ran.exit_code, 3) << ran.err;
  EXPECT_NE(ran.err.find("memory: "), std::string::npos) << ran.err;
  EXPECT_EQ(JsonOf("simulate --json " + plan_.path())["other_cluster"], Json());
}

// The times of a layer profile are those of the plan's own devices, wherever it goes.
TEST_F(OtherClusterTest, LayerProfilesKeepTheirTimes) {
  MakePlan(std::string("--strategy 1f1b --profile-batch 32 --batch 32 --model ") + SourceDir() +
           "/examples/profiles/tiny.txt");
  const TemporaryFile faster(Mixed4({{"\"14 TFLOP/s\"", "\"28 TFLOP/s\""}}));
  const double own = JsonOf("simulate --json " + plan_.path())["iteration_seconds"];
  const double there = JsonOf("simulate --json " + plan_.path() + " --cluster " +
                              faster.path())["iteration_seconds"];
  EXPECT_LT(there, own);
}

}  // namespace
}  // namespace heddle
