// Flows that come and go, against finishing times computed by hand.
#include "simulate/network.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

namespace heddle {
namespace {

struct TestFlow {
  double start = 0;
  double work = 0;
  std::vector<FlowLoad> loads;
  double latency = 0;
  double cap = 0;
  int32_t channel = -1;
  int32_t stream = -1;
};

double AloneSeconds(const TestFlow& flow, const std::vector<double>& wires) {
  double rate = flow.cap > 0 ? flow.cap : std::numeric_limits<double>::infinity();
  for (const FlowLoad& load : flow.loads) {
    rate = std::min(rate, wires[static_cast<size_t>(load.wire)] / load.weight);
  }
  return flow.latency + (flow.work > 0 ? flow.work / rate : 0);
}

// When each flow is done. Flows are in order of their start.
std::vector<double> FinishTimes(LinkModel model, const std::vector<double>& wires,
                                const std::vector<TestFlow>& flows) {
  const auto network = MakeNetwork(model, wires, 4);
  std::vector<double> finish(flows.size(), -1);
  std::vector<int32_t> done;
  size_t next = 0;
  for (;;) {
    const double start = next < flows.size() ? flows[next].start : INFINITY;
    const double event = network->NextTime();
    if (start == INFINITY && event == INFINITY) return finish;
    if (event <= start) {
      done.clear();
      network->Advance(event, done);
      for (const int32_t id : done) finish[static_cast<size_t>(id)] = event;
    } else {
      const TestFlow& flow = flows[next];
      network->Start(static_cast<int32_t>(next++),
                     {&flow.loads, flow.work, flow.latency, flow.cap, AloneSeconds(flow, wires),
                      flow.channel, flow.stream},
                     start);
    }
  }
}

// "1.5 2"
std::string Finish(LinkModel model, const std::vector<double>& wires,
                   const std::vector<TestFlow>& flows) {
  std::string text;
  for (const double time : FinishTimes(model, wires, flows)) {
    text += fmt::format("{}{:g}", text.empty() ? "" : " ", std::round(time * 1e6) / 1e6);
  }
  return text;
}

std::string Shared(const std::vector<double>& wires, const std::vector<TestFlow>& flows) {
  return Finish(LinkModel::kShared, wires, flows);
}

TEST(SharedNetworkTest, OneFlow) {
  EXPECT_EQ(Shared({100}, {{0, 100, {{0, 1}}}}), "1");
  EXPECT_EQ(Shared({100, 50}, {{2, 100, {{0, 1}, {1, 1}}}}), "4");
  EXPECT_EQ(Shared({100}, {{1, 0, {{0, 1}}}}), "1");
  EXPECT_EQ(Shared({100}, {{1, 100, {}}}), "1");  // no wire, no time
}

// 50 units of the first are left when the second comes: half the rate for both until 1.5.
TEST(SharedNetworkTest, ASecondFlowComesAndTheFirstLeaves) {
  EXPECT_EQ(Shared({100}, {{0, 100, {{0, 1}}}, {0.5, 100, {{0, 1}}}}), "1.5 2");
}

// Three flows of 30, 60, 90 on one wire of 30: all together until 3, two until 5, one until 6.
TEST(SharedNetworkTest, FlowsLeaveOneAfterTheOther) {
  EXPECT_EQ(Shared({30}, {{0, 30, {{0, 1}}}, {0, 60, {{0, 1}}}, {0, 90, {{0, 1}}}}), "3 5 6");
}

// The long flow is held to 20 by wire 1; wire 0's own flow takes 80 and is done at 1. When wire 1's
// own flow is done at 2, the long one goes on with 40 and needs 1.5 more for its last 60.
TEST(SharedNetworkTest, ALongFlowAmongShortOnes) {
  EXPECT_EQ(Shared({100, 40}, {{0, 80, {{0, 1}}}, {0, 40, {{1, 1}}}, {0, 100, {{0, 1}, {1, 1}}}}),
            "1 2 3.5");
}

// Latency first: the flow takes no bandwidth before it moves.
TEST(SharedNetworkTest, Latency) {
  EXPECT_EQ(Shared({100}, {{0, 100, {{0, 1}}, 1}, {0, 100, {{0, 1}}}}), "2 1");
  EXPECT_EQ(Shared({100}, {{0, 100, {{0, 1}}, 0.5}, {0, 100, {{0, 1}}}}), "2 1.5");
  EXPECT_EQ(Shared({100}, {{0, 0, {}, 0.25}}), "0.25");
}

TEST(SharedNetworkTest, Caps) {
  EXPECT_EQ(Shared({100}, {{0, 100, {{0, 1}}, 0, 20}, {0, 160, {{0, 1}}}}), "5 2");
}

// A collective with weight 2 on wire 0 and 1 on wire 1: 60 units at rate 30 beside a message of 60.
TEST(SharedNetworkTest, Weights) {
  EXPECT_EQ(Shared({90, 1000}, {{0, 60, {{0, 2}, {1, 1}}}, {0, 60, {{0, 1}}}}), "2 2");
  EXPECT_EQ(Shared({90, 1000}, {{0, 60, {{0, 2}, {1, 1}}}}), "1.33333");
}

TEST(SharedNetworkTest, ApartFlowsDoNotDisturbEachOther) {
  EXPECT_EQ(Shared({100, 100}, {{0, 100, {{0, 1}}}, {0.25, 50, {{1, 1}}}, {0.5, 25, {{0, 1}}}}),
            "1.25 0.75 1");
}

// The messages of one device to another go one after the other: the second of stream 0 starts when
// the first is there, its latency over by then. Stream 1 takes its half throughout.
TEST(SharedNetworkTest, MessagesOfAStreamQueue) {
  const std::vector<FlowLoad> wire = {{0, 1}};
  EXPECT_EQ(Shared({100}, {{0, 100, wire, 0.5, 0, -1, 0}, {0.25, 50, wire, 0.5, 0, -1, 0}}),
            "1.5 2");
  EXPECT_EQ(Shared({100}, {{0, 100, wire, 0, 0, -1, 0},
                           {0, 100, wire, 0, 0, -1, 0},
                           {0, 100, wire, 0, 0, -1, 1}}),
            "2 3 2");
  // A message that is not ready yet keeps its place.
  EXPECT_EQ(Shared({100}, {{0, 100, wire, 0.5, 0, -1, 0}, {0, 50, wire, 0, 0, -1, 0}}), "1.5 2");
}

std::string Exclusive(const std::vector<double>& wires, const std::vector<TestFlow>& flows) {
  return Finish(LinkModel::kExclusive, wires, flows);
}

TEST(ExclusiveNetworkTest, FirstComeFirstServed) {
  EXPECT_EQ(Exclusive({100}, {{0, 100, {{0, 1}}}, {0, 50, {{0, 1}}}, {0.5, 10, {{0, 1}}}}),
            "1 1.5 1.6");
}

// The second waits for wire 0 and keeps the third, which comes later, off wire 1.
TEST(ExclusiveNetworkTest, WhoWaitsKeepsItsWires) {
  EXPECT_EQ(Exclusive({100, 100},
                      {{0, 100, {{0, 1}}}, {0.1, 100, {{0, 1}, {1, 1}}}, {0.2, 10, {{1, 1}}}}),
            "1 2 2.1");
}

TEST(ExclusiveNetworkTest, LatencyHoldsTheWireToo) {
  EXPECT_EQ(Exclusive({100}, {{0, 100, {{0, 1}}, 0.5}, {0, 100, {{0, 1}}, 0.5}}), "1.5 3");
}

TEST(ExclusiveNetworkTest, ApartFlowsRunAtOnce) {
  EXPECT_EQ(Exclusive({100, 50}, {{0, 100, {{0, 1}}}, {0, 100, {{1, 1}}}}), "1 2");
}

std::string Channels(const std::vector<double>& wires, const std::vector<TestFlow>& flows) {
  return Finish(LinkModel::kChannels, wires, flows);
}

// One wire, but only the channel counts; flows without one never wait.
TEST(ChannelNetworkTest, OneAtATimeOnEachChannel) {
  EXPECT_EQ(Channels({100}, {{0, 100, {{0, 1}}, 0, 0, 2},
                             {0, 100, {{0, 1}}, 0, 0, 2},
                             {0, 100, {{0, 1}}, 0, 0, 3},
                             {0, 100, {{0, 1}}}}),
            "1 2 1 1");
}

TEST(NetworkTest, ModelsHaveNames) {
  for (const LinkModel model : {LinkModel::kShared, LinkModel::kExclusive, LinkModel::kChannels}) {
    EXPECT_EQ(ParseChoice<LinkModel>(NameOf(model)), model);
  }
  EXPECT_EQ(ParseChoice<LinkModel>("share"), std::nullopt);
}

std::vector<TestFlow> AnyFlows(int wires) {
  std::vector<TestFlow> flows;
  double start = 0;
  for (int k = *rc::gen::inRange(1, 15); k > 0; --k) {
    start += *rc::gen::inRange(0, 4) * 0.25;
    TestFlow flow{start, static_cast<double>(*rc::gen::inRange(0, 200)), {}};
    for (int32_t w = 0; w < wires; ++w) {
      if (*rc::gen::inRange(0, 2) == 1) flow.loads.push_back({w, 1});
    }
    flow.latency = *rc::gen::inRange(0, 3) * 0.1;
    flows.push_back(std::move(flow));
  }
  return flows;
}

// Whatever the company: a flow is never faster than alone, and every wire carries what it can.
RC_GTEST_PROP(NetworkProperty, CompanyDoesNotSpeedUp, ()) {
  const std::vector<double> wires = {100, 40, 70};
  const std::vector<TestFlow> flows = AnyFlows(3);
  for (const LinkModel model : {LinkModel::kShared, LinkModel::kExclusive}) {
    const std::vector<double> finish = FinishTimes(model, wires, flows);
    std::vector<double> total(wires.size(), 0);
    for (size_t f = 0; f < flows.size(); ++f) {
      RC_ASSERT(finish[f] >= flows[f].start + AloneSeconds(flows[f], wires) - 1e-9);
      for (const FlowLoad& load : flows[f].loads) {
        total[static_cast<size_t>(load.wire)] += flows[f].work;
      }
    }
    const double end = *std::max_element(finish.begin(), finish.end());
    for (size_t w = 0; w < wires.size(); ++w) RC_ASSERT(end >= total[w] / wires[w] - 1e-9);
  }
}

}  // namespace
}  // namespace heddle
