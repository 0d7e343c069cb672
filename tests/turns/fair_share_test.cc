#include "turns/fair_share.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace heddle {
namespace {

constexpr double kNoCap = std::numeric_limits<double>::infinity();

struct TestFlow {
  std::vector<FlowLoad> loads;
  double cap = kNoCap;
};

std::vector<double> Rates(const std::vector<TestFlow>& flows, const std::vector<double>& wires) {
  std::vector<FairFlow> fair;
  for (const TestFlow& flow : flows) fair.push_back({flow.loads, flow.cap});
  return FairRates(fair, wires);
}

void ExpectRates(const std::vector<TestFlow>& flows, const std::vector<double>& wires,
                 const std::vector<double>& expected) {
  const std::vector<double> rates = Rates(flows, wires);
  ASSERT_EQ(rates.size(), expected.size());
  for (size_t k = 0; k < rates.size(); ++k) EXPECT_NEAR(rates[k], expected[k], 1e-9) << k;
}

TEST(FairShareTest, EqualParts) {
  ExpectRates({{{{0, 1}}}, {{{0, 1}}}, {{{0, 1}}}}, {90}, {30, 30, 30});
}

// The classic chain: one long flow over both wires, one short flow on each.
TEST(FairShareTest, ALongFlowAmongShortOnes) {
  ExpectRates({{{{0, 1}, {1, 1}}}, {{{0, 1}}}, {{{1, 1}}}}, {10, 10}, {5, 5, 5});
  // The long one gets 4 of the narrow wire's 8; the wide one's flow takes what it leaves.
  ExpectRates({{{{0, 1}, {1, 1}}}, {{{0, 1}}}, {{{1, 1}}}}, {100, 8}, {4, 96, 4});
}

TEST(FairShareTest, ThreeLevels) {
  // Wire 0 (6) is full at 2; wire 1 (10) then has 8 for two: 4; wire 2 (20) has 16 for one.
  ExpectRates(
      {{{{0, 1}}}, {{{0, 1}}}, {{{0, 1}, {1, 1}}}, {{{1, 1}}}, {{{1, 1}, {2, 1}}}, {{{2, 1}}}},
      {6, 10, 20}, {2, 2, 2, 4, 4, 16});
}

TEST(FairShareTest, CapsLeaveRoomForOthers) {
  ExpectRates({{{{0, 1}}, 10}, {{{0, 1}}}, {{{0, 1}}}}, {100}, {10, 45, 45});
  ExpectRates({{{{0, 1}}, 80}, {{{0, 1}}}}, {100}, {50, 50});
}

// A collective that puts two bytes on a wire for each of its own counts twice there.
TEST(FairShareTest, Weights) {
  ExpectRates({{{{0, 2}}}, {{{0, 1}}}}, {90}, {30, 30});
  ExpectRates({{{{0, 0.5}, {1, 1}}}, {{{0, 1}}}}, {90, 10}, {10, 85});
}

TEST(FairShareTest, NoWires) {
  ExpectRates({{{}, 7}}, {1}, {7});
  EXPECT_EQ(Rates({{{}, kNoCap}}, {1})[0], kNoCap);
  EXPECT_TRUE(Rates({}, {1}).empty());
}

// Weights far apart leave rounding behind; the filling must come to an end all the same.
TEST(FairShareTest, WeightsOfAllSizes) {
  const std::vector<TestFlow> flows = {
      {{{0, 1e9}}, 0.3}, {{{0, 0.1}}, 0.7}, {{{0, 1e-9}, {1, 3e7}}}};
  const std::vector<double> rates = Rates(flows, {1e9, 1e7});
  for (const double rate : rates) EXPECT_GT(rate, 0);
}

struct Network {
  std::vector<double> wires;
  std::vector<TestFlow> flows;
};

Network AnyNetwork() {
  Network network;
  for (int w = *rc::gen::inRange(1, 7); w > 0; --w) {
    network.wires.push_back(*rc::gen::inRange(1, 1000));
  }
  const auto wires = static_cast<int>(network.wires.size());
  for (int f = *rc::gen::inRange(1, 13); f > 0; --f) {
    TestFlow flow;
    for (int32_t w = 0; w < wires; ++w) {
      if (*rc::gen::inRange(0, 2) == 0) continue;
      flow.loads.push_back({w, *rc::gen::element(0.25, 0.5, 1.0, 1.5, 1.0 / 3)});
    }
    if (flow.loads.empty()) flow.loads.push_back({*rc::gen::inRange(0, wires), 1});
    if (*rc::gen::inRange(0, 3) == 0) flow.cap = *rc::gen::inRange(1, 300);
    network.flows.push_back(std::move(flow));
  }
  return network;
}

std::vector<double> LoadsOn(const Network& network, const std::vector<double>& rates) {
  std::vector<double> used(network.wires.size(), 0);
  for (size_t f = 0; f < rates.size(); ++f) {
    for (const FlowLoad& load : network.flows[f].loads) {
      used[static_cast<size_t>(load.wire)] += rates[f] * load.weight;
    }
  }
  return used;
}

RC_GTEST_PROP(FairShareProperty, NoWireCarriesMoreThanItCan, ()) {
  const Network network = AnyNetwork();
  const std::vector<double> used = LoadsOn(network, Rates(network.flows, network.wires));
  for (size_t w = 0; w < used.size(); ++w) RC_ASSERT(used[w] <= network.wires[w] * (1 + 1e-9));
}

// Max-min: a flow below its cap has a full wire on which nobody is faster.
RC_GTEST_PROP(FairShareProperty, NobodyCouldBeFasterWithoutSlowingASlowerOne, ()) {
  const Network network = AnyNetwork();
  const std::vector<double> rates = Rates(network.flows, network.wires);
  const std::vector<double> used = LoadsOn(network, rates);
  for (size_t f = 0; f < rates.size(); ++f) {
    RC_ASSERT(rates[f] > 0 && rates[f] <= network.flows[f].cap * (1 + 1e-9));
    bool held = rates[f] >= network.flows[f].cap * (1 - 1e-9);
    for (const FlowLoad& load : network.flows[f].loads) {
      const auto wire = static_cast<size_t>(load.wire);
      bool fastest = used[wire] >= network.wires[wire] * (1 - 1e-9);
      for (size_t other = 0; other < rates.size(); ++other) {
        for (const FlowLoad& there : network.flows[other].loads) {
          if (there.wire == load.wire && rates[other] > rates[f] * (1 + 1e-9)) fastest = false;
        }
      }
      held = held || fastest;
    }
    RC_ASSERT(held);
  }
}

RC_GTEST_PROP(FairShareProperty, TheOrderOfFlowsDoesNotMatter, ()) {
  const Network network = AnyNetwork();
  const std::vector<double> rates = Rates(network.flows, network.wires);
  std::vector<size_t> order(rates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t k = order.size(); k > 1; --k) {
    std::swap(order[k - 1], order[*rc::gen::inRange<size_t>(0, k)]);
  }
  std::vector<TestFlow> shuffled;
  for (const size_t f : order) shuffled.push_back(network.flows[f]);
  const std::vector<double> again = Rates(shuffled, network.wires);
  for (size_t k = 0; k < order.size(); ++k) {
    RC_ASSERT(std::abs(again[k] - rates[order[k]]) <= 1e-9 * rates[order[k]]);
  }
}

}  // namespace
}  // namespace heddle
