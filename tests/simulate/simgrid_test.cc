// Our `shared` link model against SimGrid, an independent simulator: random topologies, random
// flows with start times, each flow's end within 1%.
//
// SimGrid runs its plain max-min model (CM02) without the corrections for TCP: no window bound, no
// factors, no cross traffic. It would also give flows with longer latencies less bandwidth; ours
// wait for their latency and then share alike, so its links have none, and the flow starts that
// much later. A process can have one SimGrid engine: all cases are parts of one platform, without
// links between.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <simgrid/s4u.hpp>

#include "simulated.h"

namespace heddle {
namespace {

namespace s4u = simgrid::s4u;

struct TestFlow {
  int from, to;  // devices
  int64_t bytes;
  double start;
};

// A cluster and what is sent in it.
struct Case {
  explicit Case(uint32_t seed) : random(seed), cluster(ClusterOf(MakeTopology())) { MakeFlows(); }

  int Upto(int most) { return std::uniform_int_distribution<int>(0, most)(random); }

  std::string Link(const std::string& a, const std::string& b) {
    return fmt::format(
        "[[link]]\nbetween = [\"{}\", \"{}\"]\nbandwidth = \"{} MB/s\"\nlatency = \"{} us\"\n"
        "duplex = \"{}\"\n",
        a, b, 100 * (1 + Upto(19)), Upto(3) * 50, Upto(3) == 0 ? "half" : "full");
  }

  // Nodes and switches, joined by a random tree and a few links more.
  std::string MakeTopology() {
    std::string text;
    std::vector<std::string> ends;
    const int nodes = 2 + Upto(2);
    for (int n = 0; n < nodes; ++n) {
      text += fmt::format(
          "[[node]]\nname = \"n{}\"\ndevices = [{{ type = \"gpu\", count = {} }}]\n"
          "link = {{ bandwidth = \"{} MB/s\", latency = \"{} us\" }}\n",
          n, 1 + Upto(2), 100 * (1 + Upto(19)), Upto(2) * 20);
      ends.push_back(fmt::format("n{}", n));
    }
    for (int s = Upto(2); s > 0; --s) {
      text += fmt::format("[[switch]]\nname = \"s{}\"\n", s);
      ends.push_back(fmt::format("s{}", s));
    }
    std::set<std::pair<int, int>> joined;
    for (int k = 1; k < static_cast<int>(ends.size()); ++k) joined.emplace(k, Upto(k - 1));
    for (int k = Upto(2); k > 0; --k) {
      const int a = 1 + Upto(static_cast<int>(ends.size()) - 2);
      joined.emplace(a, Upto(a - 1));
    }
    for (const auto& [a, b] : joined) {
      text += Link(ends[static_cast<size_t>(a)], ends[static_cast<size_t>(b)]);
    }
    return text;
  }

  void MakeFlows() {
    const int devices = cluster.device_count();
    const double spread = Upto(1) == 0 ? 1e-3 : 1e-1;  // all at once, or one by one
    for (int k = 2 + Upto(18); k > 0; --k) {
      const int from = Upto(devices - 1);
      const int to = (from + 1 + Upto(devices - 2)) % devices;
      flows.push_back({from, to, 10'000 * (1 + Upto(999)), Upto(100) * spread / 100});
    }
    std::stable_sort(flows.begin(), flows.end(),
                     [](const TestFlow& a, const TestFlow& b) { return a.start < b.start; });
  }

  const Route& RouteOf(const TestFlow& flow) const {
    return cluster.RouteBetween(DeviceId{flow.from}, DeviceId{flow.to});
  }

  std::mt19937 random;
  Cluster cluster;
  std::vector<TestFlow> flows;
};

// --- ours ---

// Every device waits until the next flow starts, sends it, and so on; receives are posted at once.
std::string ProgramText(const Case& test) {
  std::string tensors, segments, held;
  std::vector<std::string> holds(test.cluster.devices().size()), posts(holds), lists(holds),
      frees(holds);
  std::vector<double> clock(holds.size(), 0);
  for (size_t k = 0; k < test.flows.size(); ++k) {
    const TestFlow& flow = test.flows[k];
    const auto from = static_cast<size_t>(flow.from), to = static_cast<size_t>(flow.to);
    tensors += fmt::format("tensor x{} f32[{}] state\n", k, flow.bytes / 4);
    segments += fmt::format("segment W{} other time {} s\n", k, flow.start - clock[from]);
    clock[from] = flow.start;
    holds[from] += fmt::format(" x{}", k);
    posts[to] += fmt::format("  recv x{0} from {1} tag {0}\n", k, from);
    lists[from] += fmt::format("  compute W{0}\n  send x{0} to {1} tag {0}\n", k, to);
    frees[to] += fmt::format("  free x{}\n", k);
  }
  std::string text = "heddle-program 1\nstrategy test\nsamples 1 as 1\nupdates 0\nlayers 0\n";
  for (size_t d = 0; d < holds.size(); ++d) {
    text += fmt::format("device {} \"{}\"", d, test.cluster.devices()[d].name);
    text += (holds[d].empty() ? "" : " holds" + holds[d]) + "\n";
  }
  text += tensors + segments + "body\n";
  for (size_t d = 0; d < holds.size(); ++d) {
    text += fmt::format("on {}\n{}{}{}", d, posts[d], lists[d], frees[d]);
  }
  return text;
}

std::vector<double> OurEnds(const Case& test) {
  const Simulation sim = SimulationOf(ProgramText(test), test.cluster, {.repetitions = 1});
  std::map<std::string, double> by_label;
  for (const TimelineEvent& event : sim.timeline.events) {
    if (event.kind != EventKind::kTransfer) continue;
    by_label[sim.timeline.labels[static_cast<size_t>(event.label)]] = event.end.value;
  }
  std::vector<double> ends;
  for (size_t k = 0; k < test.flows.size(); ++k) ends.push_back(by_label.at(fmt::format("x{}", k)));
  return ends;
}

// --- SimGrid's ---

// Adds the case's hosts, wires, routes and flows to the platform; `ends` is filled when it runs.
void AddToPlatform(const Case& test, size_t number, s4u::NetZone* zone, std::vector<double>& ends) {
  std::vector<s4u::Host*> hosts;
  for (const Device& device : test.cluster.devices()) {
    hosts.push_back(zone->create_host(fmt::format("c{}.{}", number, device.name), 1e9));
  }
  std::vector<s4u::Link*> links;
  for (size_t w = 0; w < test.cluster.wires().size(); ++w) {
    links.push_back(zone->create_link(fmt::format("c{}.{}", number, w),
                                      test.cluster.wires()[w].bandwidth.value));
    links.back()->set_latency(0)->seal();
  }
  ends.assign(test.flows.size(), -1);
  std::map<std::pair<int, int>, std::vector<size_t>> streams;
  for (size_t k = 0; k < test.flows.size(); ++k) {
    streams[{test.flows[k].from, test.flows[k].to}].push_back(k);
  }
  for (const auto& [pair, stream] : streams) {
    s4u::Host* from = hosts[static_cast<size_t>(pair.first)];
    s4u::Host* to = hosts[static_cast<size_t>(pair.second)];
    const Route& route = test.RouteOf(test.flows[stream[0]]);
    std::vector<s4u::LinkInRoute> path;
    for (const WireId wire : route.wires) path.emplace_back(links[static_cast<size_t>(wire.value)]);
    zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, path, false);
    // Messages from one device to another go one after the other.
    const auto send_all = [from, to, &flows = test.flows, &ends, latency = route.latency.value,
                           mine = stream] {
      for (const size_t k : mine) {
        s4u::this_actor::sleep_until(flows[k].start + latency);
        s4u::Comm::sendto(from, to, static_cast<uint64_t>(flows[k].bytes));
        ends[k] = s4u::Engine::get_clock();
      }
    };
    s4u::Actor::create(fmt::format("c{}.{}-{}", number, pair.first, pair.second), from, send_all);
  }
}

TEST(SimGridTest, EveryFlowEndsWithinOnePercent) {
  constexpr size_t kCases = 100;
  char name[] = "simgrid_tests";
  char quiet[] = "--log=root.thres:error";
  char* argv[] = {name, quiet, nullptr};
  int argc = 2;
  s4u::Engine engine(&argc, argv);
  for (const char* setting :
       {"network/model:CM02", "network/TCP-gamma:1e30", "network/weight-S:0",
        "network/crosstraffic:0", "network/latency-factor:1", "network/bandwidth-factor:1"}) {
    s4u::Engine::set_config(std::string(setting));
  }
  s4u::NetZone* zone = s4u::create_full_zone("cases");
  std::vector<std::unique_ptr<Case>> cases;
  std::vector<std::vector<double>> theirs(kCases);
  for (size_t number = 0; number < kCases; ++number) {
    cases.push_back(std::make_unique<Case>(static_cast<uint32_t>(number)));
    AddToPlatform(*cases.back(), number, zone, theirs[number]);
  }
  zone->seal();
  engine.run();

  size_t slowed = 0, flows = 0;
  for (size_t number = 0; number < kCases; ++number) {
    const Case& test = *cases[number];
    const std::vector<double> ours = OurEnds(test);
    for (size_t k = 0; k < ours.size(); ++k) {
      const TestFlow& flow = test.flows[k];
      const Route& route = test.RouteOf(flow);
      const double took = theirs[number][k] - flow.start;
      EXPECT_NEAR(ours[k] - flow.start, took, 0.01 * took) << "case " << number << " flow " << k;
      const double alone = (route.latency + Bytes{flow.bytes} / route.bandwidth).value;
      slowed += took > 1.05 * alone ? 1 : 0;
      ++flows;
    }
  }
  // The comparison would be worth little if flows did not meet.
  EXPECT_GT(flows, 800U);
  EXPECT_GT(slowed, flows / 2);
}

}  // namespace
}  // namespace heddle
