// What every strategy makes of every family of models on clusters of all kinds: simulated seconds,
// the fullest device, and a hash of the Program's text. A net under changes that should change
// nothing: whoever means to change a plan reads the diff.
//
// HEDDLE_UPDATE_GOLDEN=1 rewrites tests/golden/strategies.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "choose/planners.h"
#include "program/check/check.h"
#include "program/check/untagged.h"
#include "program/lower/lower.h"
#include "program/text/program_text.h"
#include "support/places.h"

namespace heddle {
namespace {

struct TableModel {
  std::string name;
  int64_t batch;
};

// Of nearly each family, small enough to be planned in hundredths of a second.
const std::vector<TableModel> kModels = {
    {"mlp?layers=6&hidden=1024&inputs=512", 64},
    {"vgg19?width=16&image=32&hidden=512", 32},
    {"resnet152?blocks1=1&blocks2=2&blocks3=2&blocks4=1", 16},
    {"bridge", 32},
    {"transformer?layers=2", 32},
    {"bert-base?layers=4&seq=128", 32},
    {"gpt?layers=6&seq=256", 24},
    {"vit?layers=3", 16},
    {"bert-moe?layers=4&experts=8&seq=64", 16},
};

// The rule follows from the strategy: the hash is of what devices do.
std::string WithoutRule(std::string text) {
  const size_t begin = text.find("\nupdate "), end = text.find('\n', begin + 1);
  return begin == std::string::npos ? text : text.erase(begin, end - begin);
}

std::string RowOf(const Planner& planner, const Planning& planning) {
  const Result<Plan> planned = MakePlan(planner, planning);
  if (!planned.ok()) return std::string(planned.error().what);
  const Plan& plan = planned.value();
  const auto fullest =
      std::max_element(plan.estimate.memory.begin(), plan.estimate.memory.end(),
                       [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
  const Result<Program> program = LowerPlan(plan, planning.graph);
  EXPECT_EQ(NeedsTags(program.value()).value_or("no tags"), "no tags") << planner.name;
  const Verdict verdict = CheckProgram(program.value(), {&planning.graph, {}});
  EXPECT_TRUE(verdict.ok()) << planner.name << ": " << verdict.findings[0].message;
  EXPECT_EQ(verdict.not_proven, "") << planner.name;
  return fmt::format("{:.9e} s, {} bytes, {}", plan.estimate.iteration_seconds, fullest->peak_bytes,
                     HashOf(WithoutRule(PrintProgram(program.value()))));
}

std::string TableOf(const std::string& cluster_name) {
  const Cluster cluster =
      LoadCluster(SourceDir() + "/examples/clusters/" + cluster_name + ".toml").value();
  std::string table;
  for (const TableModel& model : kModels) {
    PlanRequest options;
    options.model = model.name;
    options.batch = model.batch;
    const Planning planning = Planning::Make(options, cluster, nullptr).value();
    table += fmt::format("{}, batch {}\n", model.name, model.batch);
    for (const Planner& planner : Planners()) {
      table += fmt::format("  {}: {}\n", planner.name, RowOf(planner, planning));
    }
  }
  return table;
}

class StrategyTableTest : public testing::TestWithParam<std::string> {};

TEST_P(StrategyTableTest, IsAsItWas) {
  const std::string path = SourceDir() + "/tests/golden/strategies/" + GetParam() + ".txt";
  const std::string table = TableOf(GetParam());
  if (std::getenv("HEDDLE_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFile(path, table).ok());
    return;
  }
  EXPECT_EQ(table, ReadFile(path).value()) << "HEDDLE_UPDATE_GOLDEN=1 rewrites it";
}

INSTANTIATE_TEST_SUITE_P(Clusters, StrategyTableTest,
                         testing::Values("mixed4", "equal8", "two-boards", "irregular",
                                         "thin-pair"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace heddle
