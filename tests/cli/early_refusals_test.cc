// An output that cannot be written is refused before the work, not after it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_heddle.h"

namespace heddle {
namespace {

TEST(EarlyRefusalsTest, OutputsThatCannotBeWritten) {
  const TemporaryFile plan;
  ASSERT_EQ(RunHeddle("plan --strategy dp --model tiny-mlp --batch 8 --cluster " +
                      ClusterFile("mixed4") + " -o " + plan.path())
                .exit_code,
            0);
  const std::string nowhere = "/nonexistent/file.svg";
  // What would be read or planned is wrong as well, and would be said if it came first.
  for (const std::string& arguments :
       {"plan --model nonesuch --cluster /nowhere.toml -o " + nowhere,
        "simulate /nowhere.json --trace " + nowhere, "lower /nowhere.json -o " + nowhere,
        "lab race --objective nonesuch --plot " + nowhere}) {
    const Ran ran = RunHeddle(arguments);
    EXPECT_EQ(ran.exit_code, 4) << arguments << ran.err;
    EXPECT_THAT(ran.err, testing::HasSubstr(nowhere)) << arguments;
  }
}

}  // namespace
}  // namespace heddle
