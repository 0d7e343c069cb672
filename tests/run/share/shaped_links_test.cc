#include "run/share/shaped_links.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "cluster/cluster_toml.h"

namespace heddle {
namespace {

using testing::HasSubstr;

Cluster ClusterOf(const std::string& rest, const std::vector<std::string>& nodes) {
  std::string text =
      "schema = \"heddle.cluster/1\"\n[device_type.x]\nflops = \"1 TFLOP/s\"\n"
      "memory = \"1 GiB\"\nmemory_bandwidth = \"1 GB/s\"\n";
  for (const std::string& node : nodes) {
    text += "[[node]]\nname = \"" + node + "\"\ndevices = [{ type = \"x\" }]\n";
  }
  Result<Cluster> cluster = ParseClusterToml(text + rest, "c.toml");
  EXPECT_TRUE(cluster.ok()) << (cluster.ok() ? "" : cluster.error().ToString());
  return std::move(cluster).value();
}

std::string Link(const std::string& a, const std::string& b, const std::string& rate,
                 const std::string& more = "") {
  return "[[link]]\nbetween = [\"" + a + "\", \"" + b + "\"]\nbandwidth = \"" + rate +
         "\"\nlatency = \"1 us\"\n" + more;
}

TEST(ShapedLinks, RatesAreThoseOfTheNodesLinks) {
  const Cluster pair = ClusterOf(Link("a", "b", "5 MB/s"), {"a", "b"});
  const std::vector<HostRates> two = HostRatesOf(pair, {0, 1}).value();
  EXPECT_DOUBLE_EQ(two[0].up, 5e6);
  EXPECT_DOUBLE_EQ(two[1].down, 5e6);
  const std::string hub = "[[switch]]\nname = \"s\"\n";
  const Cluster star = ClusterOf(
      hub + Link("a", "s", "5 MB/s") + Link("b", "s", "8 MB/s") + Link("c", "s", "20 MB/s"),
      {"a", "b", "c"});
  const std::vector<HostRates> three = HostRatesOf(star, {0, 1, 2}).value();
  EXPECT_DOUBLE_EQ(three[0].up, 5e6);
  EXPECT_DOUBLE_EQ(three[1].up, 8e6);
  EXPECT_DOUBLE_EQ(three[2].up, 8e6) << "nobody takes more";
}

TEST(ShapedLinks, WhatNoSwitchStandsForIsRefused) {
  const auto refused = [](const Cluster& cluster, const std::vector<int>& nodes) {
    const Result<std::vector<HostRates>> rates = HostRatesOf(cluster, nodes);
    EXPECT_FALSE(rates.ok());
    return rates.ok() ? "" : rates.error().ToString();
  };
  const Cluster mesh =
      ClusterOf(Link("a", "b", "5 MB/s") + Link("b", "c", "5 MB/s") + Link("a", "c", "5 MB/s"),
                {"a", "b", "c"});
  EXPECT_THAT(refused(mesh, {0, 1, 2}), HasSubstr("have links of their own"));
  const Cluster half = ClusterOf(Link("a", "b", "5 MB/s", "duplex = \"half\"\n"), {"a", "b"});
  EXPECT_THAT(refused(half, {0, 1}), HasSubstr("share a link"));
  const std::string hubs = "[[switch]]\nname = \"s\"\n[[switch]]\nname = \"t\"\n";
  const Cluster backbone =
      ClusterOf(hubs + Link("s", "t", "9 MB/s") + Link("a", "s", "5 MB/s") +
                    Link("b", "s", "5 MB/s") + Link("c", "t", "5 MB/s") + Link("d", "t", "5 MB/s"),
                {"a", "b", "c", "d"});
  EXPECT_THAT(refused(backbone, {0, 1, 2, 3}), HasSubstr("share a link"));
}

ino_t NetworkOfThisThread() {
  struct stat about {};
  EXPECT_EQ(stat("/proc/thread-self/ns/net", &about), 0);
  return about.st_ino;
}

// Host 1 talks to host 0, and the namespaces are no other thread's.
TEST(ShapedLinks, HostsReachEachOther) {
  const Result<ShapedLinks> made = ShapedLinks::Make({{1e8, 1e8}, {1e8, 1e8}});
  if (!made.ok()) {
    EXPECT_THAT(made.error().ToString(), HasSubstr("not permitted here"));
    EXPECT_THAT(made.error().hint, HasSubstr("root"));
    GTEST_SKIP() << made.error().ToString();
  }
  const ShapedLinks& links = made.value();
  const ino_t own = NetworkOfThisThread();
  int server = -1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, ShapedLinks::AddressOf(0).c_str(), &address.sin_addr);
  std::thread([&] {
    ASSERT_TRUE(links.Enter(0).ok());
    server = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(server, 1), 0);
    socklen_t size = sizeof address;
    getsockname(server, reinterpret_cast<sockaddr*>(&address), &size);
    EXPECT_NE(NetworkOfThisThread(), own);
  }).join();
  std::thread([&] {
    ASSERT_TRUE(links.Enter(1).ok());
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(client);
  }).join();
  close(server);
  EXPECT_EQ(NetworkOfThisThread(), own);
}

}  // namespace
}  // namespace heddle
