#include <gtest/gtest.h>

#include "run_heddle.h"
#include "support/places.h"

namespace heddle {
namespace {

TEST(DemoTest, PrintsTableAndGantt) {
  const Ran ran = RunHeddle("demo --only-plan");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* part : {"strategy", "dp-proportional", "interleaved", "forward", "simulated"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(ran.out.find('\033'), std::string::npos);  // colours only on a terminal
}

// The demo carries its cluster in its source, so that it needs no file.
TEST(DemoTest, ClusterEqualsTheExample) {
  const std::string source = ReadFile(SourceDir() + "/src/cli/demo.cc").value();
  EXPECT_NE(source.find(ReadFile(ClusterFile("mixed4")).value()), std::string::npos);
}

TEST(DemoTest, EveryExampleClusterPlans) {
  for (const char* name : {"equal8", "hap64", "irregular", "slow-rack", "laptop", "mixed4"}) {
    const Ran ran = RunHeddle("compare --json --model 'tiny-gpt?layers=4' --batch 64 --cluster " +
                              ClusterFile(name));
    EXPECT_EQ(ran.exit_code, 0) << name << ": " << ran.err;
  }
}

}  // namespace
}  // namespace heddle
