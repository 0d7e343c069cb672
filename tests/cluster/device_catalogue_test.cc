// The catalogue that is built in, and what a cluster file makes of its names.
#include "cluster/device_catalogue.h"

#include <gtest/gtest.h>

#include <set>

#include "base/json_field.h"
#include "cluster/cluster.h"
#include "cluster_text.h"

namespace heddle {
namespace {

size_t At(DType type) { return static_cast<size_t>(type); }

const std::string kNodeOf =
    "[[node]]\nname = \"a\"\ndevices = [{ type = \"a100-80gb\", count = 3 }]\n";

// A file without device types of its own.
Result<Cluster> ClusterOf(const std::string& text) {
  return ParseClusterToml("schema = \"heddle.cluster/1\"\n" + text, "test.toml");
}

TEST(DeviceCatalogueTest, HoldsWhatPeopleHave) {
  for (const char* name :
       {"p100",      "v100-16gb", "v100-32gb", "t4",        "rtx-2080-ti", "titan-rtx", "rtx-3090",
        "rtx-4090",  "rtx-5090",  "a10",       "a10g",      "a40",         "l4",        "l40s",
        "a100-40gb", "a100-80gb", "h100-sxm",  "h100-pcie", "h200",        "gh200",     "b200",
        "gb200",     "mi250x",    "mi300x",    "cpu-core"}) {
    EXPECT_NE(FindDevice(name), nullptr) << name;
  }
  for (const char* name :
       {"nvlink1", "nvlink2", "nvlink3", "nvlink4", "nvlink5", "pcie3", "pcie4", "pcie5", "ib-hdr",
        "ib-ndr", "ethernet-1", "ethernet-10", "ethernet-25", "ethernet-40", "ethernet-50",
        "ethernet-100", "ethernet-200", "ethernet-400"}) {
    EXPECT_NE(FindLink(name), nullptr) << name;
  }
  EXPECT_EQ(FindDevice("a100"), nullptr);
  EXPECT_EQ(FindLink(""), nullptr);
}

TEST(DeviceCatalogueTest, EveryFigureIsPlausibleAndHasASource) {
  std::set<std::string> names;
  for (const CatalogueDevice& device : KnownDevices().devices) {
    EXPECT_TRUE(names.insert(device.name).second) << device.name;
    EXPECT_LE(device.name.size(), size_t{kMostNameLength});
    EXPECT_FALSE(device.about.empty()) << device.name;
    EXPECT_FALSE(device.source.empty()) << device.name;
    EXPECT_TRUE(device.peak[At(DType::kF32)] && device.peak[At(DType::kF64)]) << device.name;
    for (size_t i = 0; i < kDTypeCount; ++i) {
      if (!device.reached[i]) continue;
      EXPECT_FALSE(device.reached_source.empty()) << device.name;
      const double part = device.reached[i]->value / device.peak[i]->value;
      EXPECT_GT(part, 0.5) << device.name;  // a unit mistaken would be far outside
      EXPECT_LT(part, 1.15) << device.name;
      EXPECT_EQ(device.type.flops[i], *device.reached[i]);
    }
    // Work per byte lies in a narrow band for all that is built.
    const double intensity =
        device.peak[At(DType::kF32)]->value / device.type.memory_bandwidth.value;
    EXPECT_GT(intensity, 5) << device.name;
    EXPECT_LT(intensity, 130) << device.name;
  }
  for (const CatalogueLink& link : KnownDevices().links) {
    EXPECT_FALSE(link.source.empty()) << link.name;
    EXPECT_TRUE(names.insert(link.name).second) << link.name;
  }
}

TEST(DeviceCatalogueTest, PlansTakeWhatIsReachedOrTheAssumedPart) {
  const CatalogueDevice& a100 = *FindDevice("a100-80gb");
  EXPECT_DOUBLE_EQ(a100.type.rate(DType::kBf16).value, 267.9e12);  // published
  EXPECT_DOUBLE_EQ(a100.type.rate(DType::kF32).value, 0.8 * 19.5e12);
  const CatalogueDevice& v100 = *FindDevice("v100-16gb");
  EXPECT_DOUBLE_EQ(v100.type.rate(DType::kF16).value, 100e12);
  EXPECT_EQ(v100.type.rate(DType::kBf16), v100.type.rate(DType::kF32));  // it has none: derived
  EXPECT_EQ(v100.type.memory.value, int64_t{16} << 30);
}

TEST(DeviceCatalogueTest, NamesAreEnoughInAFile) {
  const Result<Cluster> read = ClusterOf(kNodeOf + "link = \"nvlink3\"\n");
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  const Cluster& cluster = read.value();
  const DeviceTypeSpec& type = cluster.type_of(DeviceId{0});
  EXPECT_DOUBLE_EQ(type.rate(DType::kBf16).value, 267.9e12);
  EXPECT_EQ(type.memory.value, int64_t{80} << 30);
  // One link for each device: what it sends to two others shares it.
  ASSERT_EQ(cluster.wires().size(), 6u);
  EXPECT_EQ(cluster.wires()[0].name, "a:0->a.switch");
  EXPECT_DOUBLE_EQ(cluster.wires()[0].bandwidth.value, 300e9);
  const Route& one = cluster.RouteBetween(DeviceId{0}, DeviceId{1});
  const Route& other = cluster.RouteBetween(DeviceId{0}, DeviceId{2});
  ASSERT_EQ(one.wires.size(), 2u);
  EXPECT_EQ(one.wires[0], other.wires[0]);
  EXPECT_DOUBLE_EQ(one.bandwidth.value, 300e9);
}

TEST(DeviceCatalogueTest, OwnFiguresOverride) {
  const auto type_with = [&](const std::string& lines) {
    Result<Cluster> cluster =
        ClusterOf("[device_type.a100-80gb]\n" + lines + kNodeOf + "link = \"nvlink3\"\n");
    EXPECT_TRUE(cluster.ok()) << cluster.error().ToString();
    return cluster.value().type_of(DeviceId{0});
  };
  const DeviceTypeSpec known = FindDevice("a100-80gb")->type;
  const DeviceTypeSpec memory = type_with("memory = \"40 GiB\"\n");
  EXPECT_EQ(memory.memory.value, int64_t{40} << 30);
  EXPECT_EQ(memory.flops, known.flops);
  const DeviceTypeSpec table = type_with("flops = { bf16 = \"200 TFLOP/s\" }\n");
  EXPECT_DOUBLE_EQ(table.rate(DType::kBf16).value, 200e12);
  EXPECT_EQ(table.rate(DType::kF16), known.rate(DType::kF16));
  const DeviceTypeSpec single = type_with("flops = \"10 TFLOP/s\"\nlaunch = \"1 us\"\n");
  EXPECT_DOUBLE_EQ(single.rate(DType::kBf16).value, 10e12);  // derived, as in every file
  EXPECT_DOUBLE_EQ(single.rate(DType::kF64).value, 5e12);
  EXPECT_DOUBLE_EQ(single.launch_overhead.value, 1e-6);
}

TEST(DeviceCatalogueTest, LinksByNameWithOwnFigures) {
  const Cluster cluster =
      ClusterOf(kNodeOf +
                "link = { type = \"pcie4\", latency = \"9 us\", through = \"pairs\" }\n"
                "[[node]]\nname = \"b\"\ndevices = [{ type = \"t4\" }]\n"
                "[[link]]\nbetween = [\"a\", \"b\"]\ntype = \"ib-hdr\"\nbandwidth = \"20 GB/s\"\n")
          .value();
  ASSERT_EQ(cluster.wires().size(), 8u);  // three pairs, and the link between the nodes
  EXPECT_EQ(cluster.wires()[0].name, "a:0->a:1");
  EXPECT_DOUBLE_EQ(cluster.wires()[0].bandwidth.value, 31.5e9);
  EXPECT_DOUBLE_EQ(cluster.wires()[0].latency.value, 9e-6);
  EXPECT_DOUBLE_EQ(cluster.wires()[6].bandwidth.value, 20e9);
  EXPECT_DOUBLE_EQ(cluster.wires()[6].latency.value, 2e-6);
}

TEST(DeviceCatalogueTest, MisspeltNamesGetTheNearest) {
  const auto error = [](const std::string& text) { return ClusterOf(text).error().ToString(); };
  EXPECT_CONTAINS(error("[[node]]\nname = \"a\"\ndevices = [{ type = \"a100-80g\" }]\n"),
                  "node[0].devices[0].type: unknown device type \"a100-80g\"");
  EXPECT_CONTAINS(error("[[node]]\nname = \"a\"\ndevices = [{ type = \"a100-80g\" }]\n"),
                  "did you mean \"a100-80gb\"?");
  EXPECT_CONTAINS(error(kNodeOf + "link = \"nvlnk3\"\n"), "node[0].link: no link is known");
  EXPECT_CONTAINS(error(kNodeOf + "link = \"nvlnk3\"\n"), "did you mean \"nvlink3\"?");
  EXPECT_CONTAINS(error(kNodeOf + "link = { type = \"pcie4\", through = \"air\" }\n"),
                  "node[0].link.through: found \"air\"");
  EXPECT_CONTAINS(error(kNodeOf + "link = { through = \"switch\" }\n"),
                  "node[0].link.bandwidth: missing");
  EXPECT_CONTAINS(error(kNodeOf + "link = \"nvlink3\"\n[[switch]]\nname = \"a.switch\"\n"),
                  "the name \"a.switch\" is taken by switch[0]");
}

TEST(DeviceCatalogueTest, APlanCarriesTheFiguresWhole) {
  const Cluster cluster = ClusterOf(kNodeOf + "link = \"nvlink3\"\n").value();
  const Json json = ClusterSpecToJson(cluster.spec());
  EXPECT_EQ(json["device_type"]["a100-80gb"]["flops"]["bf16"], "267.9 TFLOP/s");
  EXPECT_EQ(json["switch"][0]["name"], "a.switch");
  EXPECT_EQ(json["link"].size(), 3u);
  const ClusterSpec again = ClusterSpecFromJson(JsonField(json, "plan")).value();
  EXPECT_EQ(Cluster::Make(again, "plan").value().ContentHash(), cluster.ContentHash());
}

TEST(DeviceCatalogueTest, MistakesInTheFileAreNamed) {
  const std::string good =
      "assumed_part = 0.5\n[device.x]\nabout = \"x\"\npeak = { fp32 = \"1 TFLOP/s\" }\n"
      "memory = \"1 GiB\"\nmemory_bandwidth = \"1 GB/s\"\npcie = \"p\"\nsource = \"s\"\n"
      "[link.p]\nabout = \"p\"\nkind = \"inside\"\nbandwidth = \"1 GB/s\"\nlatency = \"1 us\"\n"
      "source = \"s\"\n";
  ASSERT_TRUE(ParseDeviceCatalogue(good, "d").ok());
  const auto error_after = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    const auto read = ParseDeviceCatalogue(text.replace(at, from.size(), to), "d");
    return read.ok() ? "read" : read.error().ToString();
  };
  EXPECT_CONTAINS(error_after("\"1 TFLOP/s\"", "\"1 T\""), "d: device.x.peak");
  EXPECT_CONTAINS(error_after("fp32", "fp16"), "has no fp32");
  EXPECT_CONTAINS(error_after("pcie = \"p\"", "pcie = \"q\""), "device.x");
  EXPECT_CONTAINS(error_after("\"inside\"", "\"network\""), "no link inside a node");
  EXPECT_CONTAINS(error_after("source = \"s\"\n[link", "[link"), "device.x.source: missing");
  EXPECT_CONTAINS(error_after("0.5", "1.5"), "assumed_part");
  EXPECT_CONTAINS(
      error_after("pcie =", "reached = { bf16 = \"1 TFLOP/s\" }\nreached_source = \"r\"\npcie ="),
      "no peak");
}

}  // namespace
}  // namespace heddle
