// Every key of a job that says how to plan does something or is refused by name: with every
// strategy, on one cluster.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/text.h"
#include "choose/planners.h"
#include "cluster/cluster_toml.h"
#include "program/plan/certificate_json.h"
#include "program/text/program_text.h"
#include "share/jobs.h"
#include "share/planned_job.h"

namespace heddle {
namespace {

constexpr char kCluster[] = R"(schema = "heddle.cluster/1"
[device_type.x]
flops = "1 TFLOP/s"
memory = "8 GiB"
memory_bandwidth = "100 GB/s"
[[node]]
name = "a"
devices = [{ type = "x", count = 2 }]
link = { bandwidth = "2 GB/s", latency = "5 us" }
[[node]]
name = "b"
devices = [{ type = "x", count = 2 }]
link = { bandwidth = "2 GB/s", latency = "5 us" }
[[link]]
between = ["a", "b"]
bandwidth = "1 GB/s"
latency = "20 us"
)";

// A key, and a value that is not what is assumed without it.
struct Key {
  const char* name;
  const char* line;
};
constexpr Key kKeys[] = {
    {"model", "model = \"tiny-moe?hidden=256\""},
    {"batch", "batch = 24"},
    {"strategy", "strategy = \"dp\""},
    {"microbatches", "microbatches = 8"},
    {"micro_batch_size", "micro_batch_size = 2"},
    {"every", "every = 4"},
    {"replicas", "replicas = \"whole\""},
    {"dtype", "dtype = \"bf16\""},
    {"optimizer", "optimizer = \"sgd\""},
    {"clip", "clip = 1.0"},
    {"links", "links = \"channels\""},
    {"versions", "versions = \"vertical\""},
    {"search", "search = \"fold\""},
    {"sync", "sync = \"ps\""},
    {"compress", "compress = \"fp16\""},
    {"profile_batch", "profile_batch = 4"},
    {"profile_device", "profile_device = \"x\""},
    {"overlap", "overlap = false"},
    {"steps", "steps = 400"},
    {"weight", "weight = 2.0"},
    {"priority", "priority = 1"},
    {"tolerated_slowdown", "tolerated_slowdown = 1.5"},
};

std::string WithKey(const std::string& strategy, const Key* key) {
  std::map<std::string, std::string> lines = {
      {"name", "name = \"a\""},
      {"model", strategy == "expert-parallel" ? "model = \"tiny-moe?hidden=512\""
                                              : "model = \"mlp?layers=6\""},
      {"batch", "batch = 16"},
      {"strategy", "strategy = \"" + strategy + "\""},
      {"steps", "steps = 200"}};
  if (key != nullptr) lines[key->name] = key->line;
  std::string text = "schema = \"heddle.jobs/1\"\ncluster = \"c.toml\"\n[[job]]\n";
  for (const auto& [name, line] : lines) text += line + "\n";
  return text;
}

// All that comes of a job: what will run, how long it takes, what a share knows of it.
Result<std::string> Outcome(const std::string& text, const Cluster& cluster) {
  HEDDLE_ASSIGN(const JobsFile file, ParseJobs(text, "jobs.toml"));
  HEDDLE_ASSIGN(const PlannedJob job, PlanJob(file.jobs[0], cluster, nullptr));
  const JobSpec& spec = job.spec;
  return PrintProgram(job.program) + std::to_string(job.times.alone().value) +
         std::string(NameOf(job.plan.request.links)) + std::to_string(spec.steps) + " " +
         std::to_string(spec.weight) + " " + std::to_string(spec.priority) + " " +
         std::to_string(spec.tolerated_slowdown.value_or(0)) +
         CertificateToJson(job.plan.search.certificate).dump();
}

TEST(JobKeys, EachDoesSomethingOrIsRefused) {
  const Cluster cluster = ParseClusterToml(kCluster, "c.toml").value();
  std::set<std::string> effective;
  for (const Planner& planner : Planners()) {
    const Result<std::string> without = Outcome(WithKey(planner.name, nullptr), cluster);
    ASSERT_TRUE(without.ok()) << planner.name << ": " << without.error().ToString();
    for (const Key& key : kKeys) {
      if (std::string(key.name) == "strategy" && planner.name == "dp") continue;
      const Result<std::string> with = Outcome(WithKey(planner.name, &key), cluster);
      const std::string what = planner.name + " with " + key.line;
      if (!with.ok()) {
        const std::string said = with.error().ToString();
        // Samples of a microbatch are counted by then.
        const bool size = std::string(key.name) == "micro_batch_size";
        EXPECT_THAT(said, testing::HasSubstr(size ? "microbatches" : key.name)) << what;
        EXPECT_FALSE(with.error().hint.empty()) << what << ": " << said;
        EXPECT_NE(with.error().kind, ErrorKind::kInternal) << what << ": " << said;
        continue;
      }
      EXPECT_TRUE(with.value() != without.value()) << what << " has no effect";
      effective.insert(key.name);
    }
  }
  for (const Key& key : kKeys) {
    const bool of_profiles = std::string(key.name).starts_with("profile_");
    EXPECT_EQ(effective.contains(key.name), !of_profiles) << key.name;
  }
}

// The keys above are all there are.
TEST(JobKeys, NoneIsForgotten) {
  const Result<JobsFile> file = ParseJobs(WithKey("dp", nullptr) + "nonsense = 1\n", "jobs.toml");
  ASSERT_FALSE(file.ok());
  const std::string& hint = file.error().hint;
  const size_t list = hint.find("known: ");
  ASSERT_NE(list, std::string::npos) << hint;
  std::set<std::string> known = {"name", "plan"};
  for (const Key& key : kKeys) known.insert(key.name);
  const std::string names = hint.substr(list + 7);
  for (const std::string_view name : SplitAt(names, ',')) {
    const std::string trimmed(name.substr(name.find_first_not_of(' ')));
    EXPECT_TRUE(known.erase(trimmed) == 1) << trimmed << " has no row above";
  }
  EXPECT_TRUE(known.empty()) << *known.begin();
}

}  // namespace
}  // namespace heddle
