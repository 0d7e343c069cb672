#include "run/launched_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace heddle {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Result<std::optional<LaunchedRank>> Find(const Variables& variables, int64_t port = 0) {
  return FindLaunchedRank(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      port);
}

std::string ErrorOf(const Variables& variables) {
  const auto found = Find(variables);
  EXPECT_FALSE(found.ok());
  return found.ok() ? "" : found.error().ToString();
}

TEST(LaunchedRankTest, NobodyLaunchedUs) {
  EXPECT_FALSE(Find({}).value().has_value());
  EXPECT_FALSE(Find({{"RANK", "1"}}).value().has_value());
}

TEST(LaunchedRankTest, Torchrun) {
  const LaunchedRank rank = *Find({{"RANK", "3"},
                                   {"WORLD_SIZE", "8"},
                                   {"MASTER_ADDR", "10.0.0.1"},
                                   {"MASTER_PORT", "29500"}})
                                 .value();
  EXPECT_EQ(rank.launcher, "torchrun");
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.ranks, 8);
  EXPECT_EQ(rank.address, "10.0.0.1");
  EXPECT_EQ(rank.port, 29500);
}

TEST(LaunchedRankTest, MpirunOnOneHostAndOnSeveral) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  const LaunchedRank rank = *Find(variables, 4000).value();
  EXPECT_EQ(rank.address, "127.0.0.1");
  EXPECT_EQ(rank.port, 4000);
  EXPECT_THAT(ErrorOf(variables), HasSubstr("MASTER_PORT: is not set"));
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_THAT(ErrorOf(variables), HasSubstr("MASTER_ADDR: is not set"));
  variables["MASTER_ADDR"] = "node7";
  EXPECT_EQ(Find(variables, 4000).value()->address, "node7");
}

TEST(LaunchedRankTest, Srun) {
  Variables variables = {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_NNODES", "1"}};
  EXPECT_EQ(Find(variables, 1).value()->address, "127.0.0.1");
  variables["SLURM_NNODES"] = "2";
  EXPECT_THAT(ErrorOf(variables), HasSubstr("srun does not say that all 2 ranks are on this host"));
}

TEST(LaunchedRankTest, Nonsense) {
  EXPECT_THAT(ErrorOf({{"RANK", "8"}, {"WORLD_SIZE", "8"}}),
              HasSubstr("RANK: \"8\" is not a number from 0 to 7"));
  EXPECT_THAT(ErrorOf({{"RANK", "x"}, {"WORLD_SIZE", "8"}}), HasSubstr("RANK"));
  EXPECT_THAT(ErrorOf({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE"));
}

TEST(LaunchedRankTest, TheWayToAHost) {
  EXPECT_EQ(AddressTowards("127.0.0.1", 80).value(), "127.0.0.1");
  EXPECT_FALSE(AddressTowards("no.such.host.invalid", 80).ok());
}

}  // namespace
}  // namespace heddle
