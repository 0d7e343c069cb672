// heddle as a library, by its installed headers alone; tests/library builds a program against it
// installed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <heddle/heddle.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "support/places.h"
#include "support/temporary_file.h"

namespace heddle::api {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kTwoDevices[] = R"(
schema = "heddle.cluster/1"

[device_type.fast]
flops = "10 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "500 GB/s"

[[node]]
name = "a"
devices = [{ type = "fast", count = 2 }]
link = { bandwidth = "10 GB/s", latency = "5 us" }
)";

Cluster Mixed() { return Cluster::Load(SourceDir() + "/examples/clusters/mixed4.toml").value(); }

Plan SmallPlan(const std::string& strategy) {
  Request request;
  request.batch = 16;
  request.strategy = strategy;
  return MakePlan(Model::Load("gpt?layers=4").value(), Mixed(), request).value();
}

TEST(Library, VersionOfHeadersAndLibraryAgree) {
  EXPECT_STREQ(Version(), HEDDLE_VERSION_STRING);
  EXPECT_EQ(std::to_string(HEDDLE_VERSION_MAJOR) + "." + std::to_string(HEDDLE_VERSION_MINOR) +
                "." + std::to_string(HEDDLE_VERSION_PATCH),
            HEDDLE_VERSION_STRING);
}

TEST(Library, AModelKnowsItsSizes) {
  const Model small = Model::Load("gpt?layers=2").value();
  const Model large = Model::Load("gpt?layers=4").value();
  EXPECT_LT(small.parameters(), large.parameters());
  EXPECT_LT(small.layers().size(), large.layers().size());
  EXPECT_THAT(Model::ZooNames(), Contains("gpt"));
}

TEST(Library, AnUnknownModelIsRefusedWithTheNearest) {
  const Result<Model> model = Model::Load("gtp");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(model.error().Text(), HasSubstr("gpt"));
}

TEST(Library, AClusterOfTextNamesItsPlaceInErrors) {
  const Result<Cluster> cluster =
      Cluster::Parse("schema = \"heddle.cluster/1\"\nnodes = 3\n", "mine");
  ASSERT_FALSE(cluster.ok());
  EXPECT_THAT(cluster.error().Text(), HasSubstr("mine"));
  const Result<Cluster> two = Cluster::Parse(kTwoDevices, "mine");
  ASSERT_TRUE(two.ok()) << two.error().Text();
  ASSERT_EQ(two.value().devices().size(), 2U);
  EXPECT_EQ(two.value().devices()[1].type, "fast");
  EXPECT_EQ(two.value().devices()[1].memory_bytes, int64_t{16} << 30);
}

TEST(Library, APlanIsMadeCheckedSimulatedAndExplained) {
  const Plan plan = SmallPlan("1f1b");
  EXPECT_EQ(plan.strategy(), "1f1b");
  EXPECT_EQ(plan.batch(), 16);
  EXPECT_EQ(plan.model(), "gpt?layers=4");
  const Verdict verdict = Check(plan).value();
  EXPECT_TRUE(verdict.ok);
  ASSERT_EQ(verdict.memory.size(), static_cast<size_t>(plan.devices_used()));
  for (const DeviceMemory& memory : verdict.memory) {
    EXPECT_GT(memory.peak_bytes, 0) << memory.device;
    EXPECT_LE(memory.peak_bytes, memory.capacity_bytes) << memory.device;
  }
  const Simulation simulation = Simulate(plan).value();
  EXPECT_DOUBLE_EQ(simulation.iteration_seconds, plan.seconds_per_batch());
  EXPECT_EQ(simulation.devices.size(), verdict.memory.size());
  EXPECT_THAT(simulation.trace, HasSubstr("traceEvents"));
  ASSERT_FALSE(simulation.events.empty());
  EXPECT_TRUE(std::is_sorted(
      simulation.events.begin(), simulation.events.end(),
      [](const Event& a, const Event& b) { return a.start_seconds < b.start_seconds; }));
  EXPECT_THAT(Explain(plan).value(), HasSubstr("The limit is"));
  EXPECT_THAT(plan.Text(), HasSubstr("1f1b"));
  EXPECT_THAT(plan.Program().value(), HasSubstr("program"));
}

TEST(Library, FieldsOfTheRequestAreThoseOfTheCommandLine) {
  Request request;
  request.batch = 16;
  request.strategy = "gpipe";
  request.fields = {{"microbatches", "4"}};
  const Model model = Model::Load("gpt?layers=4").value();
  EXPECT_EQ(MakePlan(model, Mixed(), request).value().microbatches(), 4);
  request.fields = {{"microbatch", "4"}};
  const Result<Plan> misspelt = MakePlan(model, Mixed(), request);
  ASSERT_FALSE(misspelt.ok());
  EXPECT_THAT(misspelt.error().Text(), AllOf(HasSubstr("microbatch"), HasSubstr("microbatches")));
  request.fields = {{"microbatches", "many"}};
  EXPECT_FALSE(MakePlan(model, Mixed(), request).ok());
  request.fields.clear();
  request.strategy = "gpip";
  EXPECT_THAT(MakePlan(model, Mixed(), request).error().Text(), HasSubstr("gpipe"));
}

TEST(Library, EveryStrategyMakesAPlanThatPassesOrSaysWhyNot) {
  for (const std::string& strategy : Strategies()) {
    Request request;
    request.batch = 16;
    request.strategy = strategy;
    request.budget_seconds = 5;
    const Result<Plan> plan = MakePlan(Model::Load("gpt?layers=4&hidden=64&heads=2&seq=16").value(),
                                       Cluster::Parse(kTwoDevices, "two").value(), request);
    if (!plan.ok()) {
      EXPECT_FALSE(plan.error().what.empty()) << strategy;
      EXPECT_NE(plan.error().kind, ErrorKind::kInternal) << strategy << plan.error().Text();
      continue;
    }
    EXPECT_TRUE(Check(plan.value()).value().ok) << strategy;
  }
}

TEST(Library, AWrittenPlanIsReadAgainAsItWas) {
  TemporaryFile file("");
  const Plan plan = SmallPlan("gpipe");
  ASSERT_TRUE(plan.Write(file.path()).ok());
  const Result<Plan> read = Plan::Load(file.path());
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read.value().Json(), plan.Json());
  EXPECT_THAT(Simulate(read.value()).value().iteration_seconds, plan.seconds_per_batch());
  const Status nowhere = plan.Write("/proc/nowhere/plan.json");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.error().Text(), HasSubstr("/proc/nowhere"));
}

// The plan with another order of its first stage, as somebody would edit the file.
std::string WithFirstOrder(const Plan& plan, const std::string& order) {
  std::string json = plan.Json();
  const std::string key = "\"order\": \"";
  const size_t begin = json.find(key, json.find("\"stages\"")) + key.size();
  json.replace(begin, json.find('"', begin) - begin, order);
  return json;
}

TEST(Library, AnOrderThatWaitsForItselfIsRefused) {
  const TemporaryFile file(WithFirstOrder(SmallPlan("1f1b"), "(F B)*16"));
  const Result<Plan> broken = Plan::Load(file.path());
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(broken.error().Text(), HasSubstr("wait for each other"));
}

// In a cluster whose devices have just the memory for 1f1b, all forwards first are too much.
TEST(Library, APlanThatDoesNotFitHasAFindingAndNoClock) {
  const auto with_memory = [](int64_t bytes) {
    std::string text = kTwoDevices;
    text.replace(text.find("16 GiB"), 6, std::to_string(bytes) + " B");
    return Cluster::Parse(text, "two").value();
  };
  Request request;
  request.batch = 16;
  request.strategy = "1f1b";
  request.fields = {{"microbatches", "16"}};
  const Model model = Model::Load("gpt?layers=4").value();
  const Plan roomy = MakePlan(model, with_memory(int64_t{16} << 30), request).value();
  int64_t peak = 0;
  const Verdict fits = Check(roomy).value();
  for (const DeviceMemory& memory : fits.memory) {
    peak = std::max(peak, memory.peak_bytes);
  }
  const Plan tight = MakePlan(model, with_memory(peak), request).value();
  ASSERT_TRUE(Check(tight).value().ok);

  const TemporaryFile file(WithFirstOrder(tight, "F*16 B*16"));
  const Result<Plan> loaded = Plan::Load(file.path());
  ASSERT_TRUE(loaded.ok()) << loaded.error().Text();
  const Verdict verdict = Check(loaded.value()).value();
  EXPECT_FALSE(verdict.ok);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].kind, "out of memory");
  EXPECT_GT(verdict.memory[0].peak_bytes, verdict.memory[0].capacity_bytes);
  EXPECT_EQ(Simulate(loaded.value()).error().kind, ErrorKind::kInfeasible);
  EXPECT_EQ(Explain(loaded.value()).error().kind, ErrorKind::kInfeasible);
}

TEST(Library, CopiesOutliveWhatTheyWereMadeOf) {
  const Plan plan = [] {
    const Cluster cluster = Mixed();
    return SmallPlan("dp");
  }();
  const Plan copy = plan;
  EXPECT_TRUE(Check(copy).value().ok);
}

// What users include names nothing of what is not installed.
TEST(Library, HeadersIncludeOnlyEachOtherAndTheStandardLibrary) {
  for (const std::string name : {"heddle.h", "result.h", "version.h"}) {
    std::ifstream file(SourceDir() + "/include/heddle/" + name);
    ASSERT_TRUE(file) << name;
    std::string line;
    while (std::getline(file, line)) {
      if (!line.starts_with("#include")) continue;
      EXPECT_THAT(line, Not(HasSubstr("\""))) << name;
      const bool ours = line.find("<heddle/") != std::string::npos;
      EXPECT_TRUE(ours || line.find('/') == std::string::npos) << name << ": " << line;
    }
  }
}

}  // namespace
}  // namespace heddle::api
