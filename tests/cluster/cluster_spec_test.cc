// The cluster file as text in, facts or errors out.
#include "cluster/cluster_spec.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/json_field.h"
#include "cluster/cluster.h"
#include "cluster_text.h"

namespace heddle {
namespace {

// Replaces `from` in `text`, which must contain it.
std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

const std::string kGood = kPreamble + NodeText("a", 2) + NodeText("b", 1) + LinkText("a", "b");

// The error of the good file after one replacement.
std::string ErrorAfter(const std::string& from, const std::string& to) {
  return ErrorOf(Replaced(kGood, from, to));
}

TEST(ClusterSpecTest, ReadsEveryField) {
  const Cluster cluster = GoodCluster(R"(
[device_type.odd]
flops = { fp32 = "14 TFLOP/s", bf16 = "100 TFLOP/s" }
memory = "12 GB"
memory_bandwidth = "550 GB/s"
launch = "7 us"
message_bandwidth = "2 GB/s"
[[node]]
name = "n"
devices = [{ type = "odd" }, { type = "gpu", count = 2 }]
link = { bandwidth = "8 Gbit/s", latency = "3 us", duplex = "half" }
)");
  ASSERT_EQ(cluster.types().size(), 2u);
  const DeviceTypeSpec& odd = cluster.type_of(*cluster.FindDevice("n:0"));
  EXPECT_EQ(odd.name, "odd");
  EXPECT_DOUBLE_EQ(odd.rate(DType::kF32).value, 14e12);
  EXPECT_DOUBLE_EQ(odd.rate(DType::kBf16).value, 100e12);
  EXPECT_DOUBLE_EQ(odd.rate(DType::kF16).value, 14e12);  // derived
  EXPECT_DOUBLE_EQ(odd.rate(DType::kF64).value, 7e12);   // derived
  EXPECT_DOUBLE_EQ(odd.rate(DType::kI64).value, 14e12);  // derived
  EXPECT_EQ(odd.memory.value, 12'000'000'000);
  EXPECT_DOUBLE_EQ(odd.launch_overhead.value, 7e-6);
  EXPECT_DOUBLE_EQ(odd.MessageSeconds(1e9).value, 0.5);
  const DeviceTypeSpec& gpu = cluster.type_of(*cluster.FindDevice("n:2"));
  EXPECT_EQ(gpu.name, "gpu");
  EXPECT_EQ(gpu.memory.value, int64_t{16} << 30);
  EXPECT_DOUBLE_EQ(gpu.launch_overhead.value, 5e-6);  // the default
  EXPECT_EQ(gpu.MessageSeconds(1e9).value, 0);
  ASSERT_EQ(cluster.wires().size(), 3u);  // half duplex: one for each pair
  EXPECT_EQ(cluster.wires()[0].name, "n:0--n:1");
  EXPECT_DOUBLE_EQ(cluster.wires()[0].bandwidth.value, 1e9);
  EXPECT_DOUBLE_EQ(cluster.wires()[0].latency.value, 3e-6);
}

TEST(ClusterSpecTest, LatencyDefaultsToZero) {
  const Cluster cluster = GoodCluster(
      "[[node]]\nname = \"a\"\ndevices = [{ type = \"gpu\", count = 2 }]\n"
      "link = { bandwidth = \"1 GB/s\" }\n");
  EXPECT_EQ(cluster.wires()[0].latency.value, 0);
}

TEST(ClusterSpecTest, NamesFieldAndRemedyOfAMissingUnit) {
  const std::string number = ErrorAfter("memory = \"16 GiB\"", "memory = 16");
  EXPECT_CONTAINS(number, "test.toml: device_type.gpu.memory");
  EXPECT_CONTAINS(number, "16 has no unit");
  EXPECT_CONTAINS(ErrorAfter("\"10 TFLOP/s\"", "10"), "device_type.gpu.flops: 10 has no unit");
  EXPECT_CONTAINS(ErrorAfter("\"10 TFLOP/s\"", "\"10\""), "has no unit");
  EXPECT_CONTAINS(ErrorAfter("\"1 GB/s\"", "\"1 GB\""), "link[0].bandwidth");
  EXPECT_CONTAINS(ErrorAfter("\"20 us\"", "\"20 ym\""), "unknown unit \"ym\"");
}

TEST(ClusterSpecTest, RefusesNumbersThatMakeNoSense) {
  EXPECT_CONTAINS(ErrorAfter("\"1 GB/s\"", "\"-1 GB/s\""), "negative");
  EXPECT_CONTAINS(ErrorAfter("\"1 GB/s\"", "\"0 GB/s\""), "link[0].bandwidth");
  EXPECT_CONTAINS(ErrorAfter("\"1 GB/s\"", "\"nan GB/s\""), "finite");
  EXPECT_CONTAINS(ErrorAfter("\"1 GB/s\"", "\"inf GB/s\""), "finite");
  EXPECT_CONTAINS(ErrorAfter("\"1 GB/s\"", "nan"), "finite");
  EXPECT_CONTAINS(ErrorAfter("\"1 GB/s\"", "-inf"), "finite");
  EXPECT_CONTAINS(ErrorAfter("\"20 us\"", "\"-20 us\""), "negative");
  EXPECT_CONTAINS(ErrorAfter("\"16 GiB\"", "\"0 GiB\""), "device_type.gpu.memory");
  EXPECT_CONTAINS(ErrorAfter("\"10 TFLOP/s\"", "\"0 TFLOP/s\""), "device_type.gpu.flops");
  EXPECT_CONTAINS(ErrorAfter("\"900 GB/s\"", "\"0 GB/s\""), "memory_bandwidth");
  EXPECT_CONTAINS(ErrorAfter("\"5 us\"", "\"1e300 s\""), "too large");
}

TEST(ClusterSpecTest, SuggestsTheNearestName) {
  EXPECT_CONTAINS(ErrorAfter("type = \"gpu\"", "type = \"gqu\""),
                  "node[0].devices[0].type: unknown device type \"gqu\"");
  EXPECT_CONTAINS(ErrorAfter("type = \"gpu\"", "type = \"gqu\""), "did you mean \"gpu\"?");
  EXPECT_CONTAINS(ErrorAfter("memory_bandwidth", "memory_bandwith"),
                  "did you mean \"memory_bandwidth\"?");
  EXPECT_CONTAINS(ErrorAfter("latency", "latencey"), "did you mean \"latency\"?");
  EXPECT_CONTAINS(ErrorAfter("[[link]]", "[[links]]"), "did you mean \"link\"?");
  EXPECT_CONTAINS(ErrorAfter("devices =", "device ="), "did you mean \"devices\"?");
  EXPECT_CONTAINS(ErrorOf(kGood + "[[switch]]\nname = \"s\"\nports = 4\n"), "\"ports\"");
  EXPECT_CONTAINS(ErrorAfter("count = 2", "cuont = 2"), "did you mean \"count\"?");
}

TEST(ClusterSpecTest, DemandsItsFields) {
  EXPECT_CONTAINS(ErrorAfter("schema = \"heddle.cluster/1\"", ""), "schema: missing");
  EXPECT_CONTAINS(ErrorAfter("heddle.cluster/1", "heddle.cluster/2"), "\"heddle.cluster/1\"");
  EXPECT_CONTAINS(ErrorAfter("flops = \"10 TFLOP/s\"", ""), "device_type.gpu.flops: missing");
  EXPECT_CONTAINS(ErrorAfter("\"10 TFLOP/s\"", "{ bf16 = \"10 TFLOP/s\" }"), "flops.fp32: missing");
  EXPECT_CONTAINS(ErrorAfter("\"10 TFLOP/s\"", "{ fp8 = \"10 TFLOP/s\" }"), "\"fp8\"");
  EXPECT_CONTAINS(ErrorAfter("name = \"a\"", ""), "node[0].name: missing");
  EXPECT_CONTAINS(ErrorAfter("bandwidth = \"1 GB/s\"", ""), "link[0].bandwidth: missing");
  EXPECT_CONTAINS(ErrorAfter("[\"a\", \"b\"]", "[\"a\"]"), "link[0].between: found 1 ends");
  EXPECT_CONTAINS(ErrorAfter("latency = \"20 us\"", "duplex = \"both\""), "\"half\"");
  EXPECT_CONTAINS(ErrorAfter("[{ type = \"gpu\", count = 2 }]", "[]"), "node[0].devices");
  EXPECT_CONTAINS(ErrorAfter("[{ type = \"gpu\", count = 2 }]", "\"gpu\""), "node[0].devices");
  EXPECT_CONTAINS(ErrorOf(kPreamble), "node: missing");
  EXPECT_CONTAINS(ErrorOf("schema = \"heddle.cluster/1\"\n"), "node: missing");
  EXPECT_CONTAINS(ErrorOf("node = []\n" + kPreamble), "there is no node");
  EXPECT_CONTAINS(ErrorOf(""), "schema: missing");
}

TEST(ClusterSpecTest, RefusesTakenAndBadNames) {
  EXPECT_CONTAINS(ErrorAfter("name = \"b\"", "name = \"a\""), "\"a\" is taken by node[0]");
  EXPECT_CONTAINS(ErrorOf(kGood + SwitchText("a")), "switch[0]: the name \"a\" is taken");
  EXPECT_CONTAINS(ErrorOf(kGood + NodeText("x", 1, "count = 3") + NodeText("x2", 1)),
                  "\"x2\" is taken");
  EXPECT_CONTAINS(ErrorOf(kPreamble + kGood), "test.toml:");  // [device_type.gpu] twice
  for (const char* name :
       {"", "a:0", "a*", "a b", "\\u00e9", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    EXPECT_CONTAINS(ErrorAfter("name = \"a\"", std::string("name = \"") + name + "\""),
                    "is not a name");
  }
}

TEST(ClusterSpecTest, RefusesCountsThatAreTooLarge) {
  EXPECT_CONTAINS(ErrorAfter("count = 2", "count = 0"), "expected 1 to 1,024");
  EXPECT_CONTAINS(ErrorAfter("count = 2", "count = 1025"), "expected 1 to 1,024");
  EXPECT_CONTAINS(ErrorAfter("count = 2", "count = -1"), "out of range");
  EXPECT_CONTAINS(ErrorAfter("count = 2", "count = 2.0"), "whole number");
  EXPECT_CONTAINS(ErrorAfter("{ type = \"gpu\", count = 2 }",
                             "{ type = \"gpu\", count = 1000 }, { type = \"gpu\", count = 25 }"),
                  "1,025 devices in one node");
  EXPECT_CONTAINS(ErrorOf(kPreamble + NodeText("a", 1024, "count = 65")), "65,536 devices in all");
  EXPECT_CONTAINS(ErrorOf(kPreamble + NodeText("a", 1, "count = 65537")), "out of range");
  EXPECT_CONTAINS(ErrorOf(kPreamble + NodeText("a", 128, "count = 40")), "wires in all");
  EXPECT_CONTAINS(ErrorOf(kGood + SwitchText("s", "count = 65536") + SwitchText("t")),
                  "65,536 switches in all");
  std::string many = kPreamble + NodeText("a", 1, "count = 65536");
  for (int i = 0; i < 5; ++i) {
    many += SwitchText("s" + std::to_string(i)) + LinkText("a*", "s" + std::to_string(i));
  }
  EXPECT_CONTAINS(ErrorOf(many), "links in all");
}

TEST(ClusterSpecTest, JsonRoundTripKeepsTheHash) {
  const std::string texts[] = {
      kGood,
      kPreamble + NodeText("n", 3, "count = 5") + SwitchText("s") + SwitchText("t", "count = 2") +
          LinkText("n*", "s", "10.4 Gbit/s", "12.7 us", "duplex = \"half\"") +
          LinkText("t*", "s", "123456.789 kB/s", "0.1 ns"),
      Replaced(kGood, "\"10 TFLOP/s\"",
               "{ fp32 = \"14.13 TFLOP/s\", bf16 = \"0.1 PFLOP/s\", fp64 = \"3 GFLOP/s\" }"),
  };
  for (const std::string& text : texts) {
    const Result<Cluster> cluster = ParseClusterToml(text, "test.toml");
    ASSERT_TRUE(cluster.ok()) << cluster.error().ToString();
    const Json json = ClusterSpecToJson(cluster.value().spec());
    Result<Json> parsed = ParseJson(json.dump(2), "plan.json");
    ASSERT_TRUE(parsed.ok());
    Result<ClusterSpec> spec = ClusterSpecFromJson(JsonField(parsed.value(), "plan.json"));
    ASSERT_TRUE(spec.ok()) << spec.error().ToString();
    const Result<Cluster> again = Cluster::Make(std::move(spec).value(), "plan.json");
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again.value().ContentHash(), cluster.value().ContentHash()) << json.dump(2);
    EXPECT_EQ(ClusterSpecToJson(again.value().spec()), json);
  }
}

TEST(ClusterSpecTest, JsonIsReadable) {
  const Result<Cluster> cluster = ParseClusterToml(kGood, "test.toml");
  EXPECT_EQ(ClusterSpecToJson(cluster.value().spec()).dump(),
            "{\"schema\":\"heddle.cluster/1\","
            "\"device_type\":{\"gpu\":{\"flops\":\"10 TFLOP/s\",\"memory\":\"16 GiB\","
            "\"memory_bandwidth\":\"900 GB/s\",\"launch\":\"5 us\"}},"
            "\"node\":[{\"name\":\"a\",\"devices\":[{\"type\":\"gpu\",\"count\":2}],"
            "\"link\":{\"bandwidth\":\"10 GB/s\",\"latency\":\"5 us\"}},"
            "{\"name\":\"b\",\"devices\":[{\"type\":\"gpu\",\"count\":1}],"
            "\"link\":{\"bandwidth\":\"10 GB/s\",\"latency\":\"5 us\"}}],"
            "\"link\":[{\"between\":[\"a\",\"b\"],\"bandwidth\":\"1 GB/s\","
            "\"latency\":\"20 us\"}]}");
}

TEST(ClusterSpecTest, ErrorsInsideAPlanNameThePlan) {
  const Json json = Json::parse(R"({"schema": "heddle.cluster/1", "device_type": {},
      "node": [{"name": "a", "devices": [{"type": "gpu"}]}]})");
  const Result<ClusterSpec> spec = ClusterSpecFromJson(JsonField(json, "plan.json", "cluster"));
  ASSERT_FALSE(spec.ok());
  EXPECT_CONTAINS(spec.error().ToString(), "plan.json: cluster: node[0].devices[0].type");
}

TEST(ClusterSpecTest, HashSeesWhatMattersOnly) {
  const auto hash = [](const std::string& text) {
    return ParseClusterToml(text, "test.toml").value().ContentHash();
  };
  EXPECT_EQ(hash(kGood), hash("# a comment\n" + kGood));
  EXPECT_EQ(hash(kGood), hash(Replaced(kGood, "\"10 TFLOP/s\"", "\"10000 GFLOP/s\"")));
  EXPECT_NE(hash(kGood), hash(Replaced(kGood, "\"10 TFLOP/s\"", "\"11 TFLOP/s\"")));
  EXPECT_NE(hash(kGood), hash(Replaced(kGood, "count = 2", "count = 3")));
  EXPECT_NE(hash(kGood), hash(Replaced(kGood, "\"20 us\"", "\"21 us\"")));
}

TEST(ClusterSpecTest, SpecsMadeByProgramsAreCheckedToo) {
  ClusterSpec spec = ParseClusterToml(kGood, "test.toml").value().spec();
  spec.links[0].link.bandwidth.value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Cluster::Make(spec, "made").ok());
  spec.links[0].link.bandwidth.value = 1e9;
  EXPECT_TRUE(Cluster::Make(spec, "made").ok());
  spec.types.push_back(spec.types[0]);
  EXPECT_FALSE(Cluster::Make(spec, "made").ok());
}

}  // namespace
}  // namespace heddle
