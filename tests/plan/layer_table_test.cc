#include "plan/pipeline/layer_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/order/orders.h"
#include "plan/pipeline/stage_partition.h"
#include "support/places.h"

namespace heddle {
namespace {

const Cluster& Equal8() {
  static const Cluster cluster =
      LoadCluster(SourceDir() + "/examples/clusters/equal8.toml").value();
  return cluster;
}

TEST(LayerTableTest, TimesAreThoseOfTheCostModel) {
  PlanRequest options;
  options.model = "gpt?layers=4&seq=64";
  options.batch = 16;
  const Planning planning = Planning::Make(options, Equal8(), nullptr).value();
  const LayerTable table(planning);
  const LayerSeconds seconds(planning, 4);
  for (int first = 0; first < table.layers(); ++first) {
    for (int end = first + 1; end <= table.layers(); ++end) {
      EXPECT_NEAR(table.TimesFor(4).Of(0, first, end).whole(), seconds.Of(0, first, end - 1),
                  1e-12);
    }
  }
}

// Estimates of memory decide what is tried: neither far above what the checker finds nor below.
// With recomputation convolutions need more than is counted; the search then tries again with less.
TEST(LayerTableTest, MemoryIsNearTheCheckers) {
  constexpr int kStages = 4, kMicrobatches = 8;
  for (const char* model : {"gpt?layers=10&seq=128", "bert-base?layers=10&seq=128", "mlp?layers=8",
                            "vgg19?image=64", "vit?layers=10", "bert-moe?layers=8&seq=64",
                            "resnet152?image=64&blocks1=1&blocks2=2&blocks3=3&blocks4=2"}) {
    PlanRequest options;
    options.model = model;
    options.batch = 64;
    const Planning planning = Planning::Make(options, Equal8(), nullptr).value();
    const LayerTable table(planning);
    for (const bool recompute : {false, true}) {
      Plan plan = planning.Blank("test", "1f1b");
      plan.microbatches = kMicrobatches;
      const LayerSeconds seconds(planning, 8);
      const auto runs = BalancedRuns(seconds, table.layers(), std::vector<int>(kStages, 0));
      const auto orders = OneForwardOneBackward(kStages, kMicrobatches);
      plan.pipelines.emplace_back();
      for (size_t s = 0; s < kStages; ++s) {
        StagePlan stage;
        stage.chunks = {runs[s]};
        stage.devices = {Equal8().devices()[s].name};
        stage.shares = {1};
        stage.recompute = recompute;
        stage.order = orders[s];
        plan.pipelines[0].stages.push_back(std::move(stage));
      }
      const Evaluation evaluation = Evaluate(planning, plan, false).value();
      for (size_t s = 0; s < kStages; ++s) {
        const double estimate = table.MemoryOf(runs[s].first, runs[s].last + 1)
                                    .Peak(8, static_cast<double>(kStages - s), recompute);
        const auto found = static_cast<double>(evaluation.verdict.memory[s].peak.value);
        EXPECT_GT(estimate, (recompute ? 0.6 : 0.95) * found)
            << model << " stage " << s << " recompute " << recompute;
        EXPECT_LT(estimate, 1.6 * found) << model << " stage " << s << " recompute " << recompute;
      }
    }
  }
}

}  // namespace
}  // namespace heddle
