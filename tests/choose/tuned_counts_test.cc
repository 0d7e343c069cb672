// A tuned number of microbatches against every one given by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "choose/planners.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

template <class T>
T OneOf(std::mt19937& random, const std::vector<T>& some) {
  return some[random() % some.size()];
}

struct Case {
  PlanRequest options;
  ClusterNumbers numbers;
};

// Small models on small clusters, some of them with little memory.
Case RandomCase(std::mt19937& random) {
  Case one;
  one.options.model = OneOf<std::string>(
      random, {"tiny-mlp", "tiny-gpt?layers=4", "mlp?layers=6&inputs=256&hidden=512&outputs=64"});
  one.options.batch = OneOf<int64_t>(random, {7, 16, 32, 60});
  one.numbers = RandomCluster(random);
  one.numbers.nodes = 2;
  one.numbers.devices = OneOf<int>(random, {1, 2});
  one.numbers.flops *= 1e3;
  one.numbers.memory = OneOf<double>(random, {2e6, 4e6, 8e6, 16e9});
  return one;
}

Result<Plan> PlanWith(const std::string& strategy, PlanRequest options, const Cluster& cluster,
                      std::optional<int64_t> microbatches) {
  options.microbatches = microbatches;
  return MakePlan(strategy, Planning::Make(options, cluster, nullptr).value());
}

// `slack`: what a heuristic search may be behind itself with a number given.
void ExpectTunedIsBest(const std::string& strategy, const PlanRequest& options,
                       const Cluster& cluster, double slack) {
  const Result<Plan> tuned = PlanWith(strategy, options, cluster, std::nullopt);
  for (int64_t m = 1; m <= options.batch; m *= 2) {
    const Result<Plan> given = PlanWith(strategy, options, cluster, m);
    if (!given.ok()) {
      EXPECT_NE(given.error().kind, ErrorKind::kInternal) << given.error().ToString();
      continue;
    }
    ASSERT_TRUE(tuned.ok()) << strategy << " of " << options.model << ", batch " << options.batch
                            << ", fits with " << m << ": " << tuned.error().ToString();
    EXPECT_LE(tuned.value().seconds_per_batch(),
              given.value().seconds_per_batch() * (1 + slack) + 1e-12)
        << strategy << " of " << options.model << ", batch " << options.batch << ": "
        << tuned.value().microbatches << " tuned, " << m << " by hand";
  }
}

TEST(TunedCountsTest, NoNumberByHandIsBetter) {
  std::mt19937 random(5);
  for (int round = 0; round < 10; ++round) {
    const Case one = RandomCase(random);
    const Cluster cluster = ClusterOf(one.numbers);
    for (const char* strategy : {"dp", "dp-proportional", "gpipe", "1f1b", "zb-h1", "interleaved",
                                 "pipedream", "hetpipe", "dapple", "local"}) {
      ExpectTunedIsBest(strategy, one.options, cluster, 0);
    }
  }
}

TEST(TunedCountsTest, NorForTheSearchOfPipelines) {
  std::mt19937 random(6);
  for (int round = 0; round < 8; ++round) {
    const Case one = RandomCase(random);
    ExpectTunedIsBest("pipeline", one.options, ClusterOf(one.numbers), 1e-9);
  }
}

TEST(TunedCountsTest, NorForDividedTensors) {
  std::mt19937 random(8);
  for (int round = 0; round < 3; ++round) {
    Case one = RandomCase(random);
    if (round % 2 == 1) one.options.model = "tiny-moe?layers=2&experts=8";
    const Cluster cluster = ClusterOf(one.numbers);
    for (const char* strategy : {"spmd", "zero", "tensor-parallel", "expert-parallel"}) {
      ExpectTunedIsBest(strategy, one.options, cluster, 1e-9);
    }
  }
}

// One fast device with little memory beside three slow ones: all of the batch at once fits only
// where the slow ones take more of it than their speed is worth.
TEST(TunedCountsTest, NorWhereTheFastDeviceHasLittleMemory) {
  for (const double gib : {0.7, 1.2}) {
    const Cluster cluster = ParseClusterToml(fmt::format(R"(schema = "heddle.cluster/1"
[device_type.big]
flops = "40 TFLOP/s"
memory = "{} GiB"
memory_bandwidth = "1500 GB/s"
[device_type.small]
flops = "2 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "300 GB/s"
[[node]]
name = "a"
devices = [{{ type = "big", count = 1 }}, {{ type = "small", count = 3 }}]
link = {{ bandwidth = "12 GB/s", latency = "1 us" }}
)",
                                                         gib),
                                             "test")
                                .value();
    PlanRequest options;
    options.model = "vgg19?image=64";
    options.batch = 128;
    ExpectTunedIsBest("spmd", options, cluster, 1e-9);
  }
}

}  // namespace
}  // namespace heddle
