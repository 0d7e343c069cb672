// A cluster in one line.
#include "cluster/cluster_line.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "cluster/cluster.h"
#include "cluster/device_catalogue.h"
#include "cluster/this_machine.h"
#include "cluster_text.h"
#include "support/places.h"

namespace heddle {
namespace {

Cluster Make(const std::string& line) {
  Result<Cluster> cluster = LoadCluster(line);
  EXPECT_TRUE(cluster.ok()) << cluster.error().ToString();
  return std::move(cluster).value();
}

const Route& RouteOf(const Cluster& cluster, const char* from, const char* to) {
  return cluster.RouteBetween(*cluster.FindDevice(from), *cluster.FindDevice(to));
}

std::string ErrorFor(const std::string& line) {
  const Result<Cluster> cluster = LoadCluster(line);
  if (cluster.ok()) return "read";
  EXPECT_EQ(cluster.error().kind, ErrorKind::kBadInput);
  return cluster.error().ToString();
}

TEST(ClusterLineTest, TwoKindsOfNodes) {
  const Cluster cluster = Make("4x8 a100-80gb, nvlink, ib 8x200 Gbit/s; 2x4 rtx-3090, pcie");
  EXPECT_EQ(cluster.device_count(), 40);
  EXPECT_EQ(cluster.nodes().size(), 6u);
  EXPECT_EQ(cluster.type_of(*cluster.FindDevice("a3:7")).name, "a100-80gb");
  EXPECT_EQ(cluster.type_of(*cluster.FindDevice("b1:3")).name, "rtx-3090");
  EXPECT_DOUBLE_EQ(RouteOf(cluster, "a0:0", "a0:7").bandwidth.value, 300e9);
  EXPECT_DOUBLE_EQ(RouteOf(cluster, "b0:0", "b0:1").bandwidth.value, 31.5e9);
  EXPECT_DOUBLE_EQ(RouteOf(cluster, "a0:0", "a1:0").bandwidth.value, 200e9);   // 1600 Gbit/s
  EXPECT_DOUBLE_EQ(RouteOf(cluster, "a0:0", "b0:0").bandwidth.value, 1.25e9);  // ethernet-10
}

TEST(ClusterLineTest, ShortForms) {
  EXPECT_EQ(Make("t4").device_count(), 1);
  const Cluster one = Make("8 v100-16gb");
  EXPECT_EQ(one.nodes().size(), 1u);
  EXPECT_EQ(one.nodes()[0].name, "a");  // its devices can be taken out one by one
  EXPECT_DOUBLE_EQ(RouteOf(one, "a:0", "a:7").bandwidth.value, 15.75e9);
  EXPECT_DOUBLE_EQ(RouteOf(Make("2 a40, pcie 20 GB/s"), "a:0", "a:1").bandwidth.value, 20e9);
  EXPECT_DOUBLE_EQ(RouteOf(Make("2 a40, pcie3 2x"), "a:0", "a:1").bandwidth.value, 31.5e9);
  const Cluster apart = Make(" 2x1  l4 ,ib-ndr 2x ");
  EXPECT_DOUBLE_EQ(RouteOf(apart, "a0:0", "a1:0").bandwidth.value, 100e9);
  const Cluster ethernet = Make("t4; t4, ethernet 40 Gbit/s");
  EXPECT_DOUBLE_EQ(RouteOf(ethernet, "a:0", "b:0").bandwidth.value, 1.25e9);
  EXPECT_EQ(ethernet.types().size(), 1u);
}

TEST(ClusterLineTest, ErrorsNameThePlace) {
  EXPECT_CONTAINS(ErrorFor("4x8 a100-80g"), "cluster \"4x8 a100-80g\": at character 5");
  EXPECT_CONTAINS(ErrorFor("4x8 a100-80g"), "did you mean \"a100-80gb\"?");
  EXPECT_CONTAINS(ErrorFor("4x8 a40, nvlink3; 2 t4, pci3"), "at character 25: no link is known");
  EXPECT_CONTAINS(ErrorFor("4x8 a40, nvlink3; 2 t4, pci3"), "did you mean \"pcie3\"?");
  EXPECT_CONTAINS(ErrorFor("0x8 t4"), "at character 1: \"0\" is no number of nodes");
  EXPECT_CONTAINS(ErrorFor("2x9999 t4"), "at character 3: \"9999\" is no number of devices");
  EXPECT_CONTAINS(ErrorFor("2x t4"), "at character 3: \"\" is no number of devices");
  EXPECT_CONTAINS(ErrorFor("2 t4 pcie"), "at character 6: \"pcie\" after the device");
  EXPECT_CONTAINS(ErrorFor("2 t4, pcie 5"), "at character 12");
  EXPECT_CONTAINS(ErrorFor("2 t4, nvlink"), "at character 7: t4 has no nvlink");
  EXPECT_CONTAINS(ErrorFor("2 cpu-core, pcie"), "cpu-core has no pcie");
  EXPECT_CONTAINS(ErrorFor("2 t4, ib"), "\"ib\" without a bandwidth");
  EXPECT_CONTAINS(ErrorFor("2 t4, pcie, pcie4"), "at character 13: a second link inside");
  EXPECT_CONTAINS(ErrorFor("2 t4, ib-hdr, ib-ndr"), "a second link between the nodes");
  EXPECT_CONTAINS(ErrorFor("2 t4,"), "at character 6: no link is known as \"\"");
  EXPECT_CONTAINS(ErrorFor("; t4"), "at character 1: there is no device");
  EXPECT_CONTAINS(ErrorFor(""), "there is no device");
  EXPECT_CONTAINS(ErrorFor("8x"), "at character 3");
  EXPECT_CONTAINS(ErrorFor("65536x1024 t4"), "more than 65,536 devices in all");
  EXPECT_CONTAINS(ErrorFor(std::string(5000, 't')), "a line of 5000 characters");
  std::string many = "t4";
  for (int i = 0; i < 26; ++i) many += ";t4";
  EXPECT_CONTAINS(ErrorFor(many), "more than 26 groups");
}

TEST(ClusterLineTest, FilesAreFiles) {
  EXPECT_TRUE(IsClusterFile("nothing.toml"));
  EXPECT_TRUE(IsClusterFile("plan.json"));
  EXPECT_TRUE(IsClusterFile("./lab"));
  EXPECT_TRUE(IsClusterFile("/dev/null"));
  EXPECT_TRUE(IsClusterFile(SourceDir() + "/LICENSE"));
  EXPECT_FALSE(IsClusterFile("2 t4, pcie 5 GB/s"));
  EXPECT_FALSE(IsClusterFile("here"));
  EXPECT_FALSE(IsClusterFile("nothing"));
  EXPECT_CONTAINS(ErrorFor("nothing.toml"), "nothing.toml");
  EXPECT_CONTAINS(ErrorFor("lab"), "a file's name ends in .toml or .json");
}

TEST(ClusterLineTest, HereIsThisMachine) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const Cluster here = Make("here");
  EXPECT_EQ(here.device_count(), CPU_COUNT(&allowed));
  EXPECT_EQ(here.device(DeviceId{0}).name, "here:0");
  const ClusterSpec made = MachineOf(4, Bytes{int64_t{8} << 30}).value();
  EXPECT_EQ(made.types[0].memory.value, int64_t{2} << 30);
  EXPECT_EQ(Cluster::Make(made, "here").value().device_count(), 4);
  EXPECT_EQ(Cluster::Make(MachineOf(1, Bytes{1 << 30}).value(), "here").value().wires().size(), 0u);
}

}  // namespace
}  // namespace heddle
