#include "share/jobs.h"

#include <gtest/gtest.h>

#include <string>

namespace heddle {
namespace {

constexpr char kHead[] = "schema = \"heddle.jobs/1\"\ncluster = \"clusters/lab.toml\"\n";

std::string WithJob(const std::string& job) { return std::string(kHead) + "[[job]]\n" + job; }

JobsFile Read(const std::string& text) {
  Result<JobsFile> jobs = ParseJobs(text, "dir/jobs.toml");
  EXPECT_TRUE(jobs.ok()) << (jobs.ok() ? "" : jobs.error().ToString());
  return jobs.ok() ? std::move(jobs).value() : JobsFile{};
}

std::string Refused(const std::string& text) {
  const Result<JobsFile> jobs = ParseJobs(text, "dir/jobs.toml");
  EXPECT_FALSE(jobs.ok());
  if (jobs.ok()) return "";
  EXPECT_EQ(jobs.error().kind, ErrorKind::kBadInput);
  return jobs.error().ToString();
}

TEST(Jobs, AClusterInOneLineLiesNowhere) {
  const std::string job =
      "[[job]]\nname = \"a\"\nmodel = \"m/config.json\"\nbatch = 8\nsteps = 3\n";
  const JobsFile jobs = Read("schema = \"heddle.jobs/1\"\ncluster = \"2 t4, pcie\"\n" + job);
  EXPECT_EQ(jobs.cluster, "2 t4, pcie");
  EXPECT_EQ(jobs.jobs[0].request.model, "dir/m/config.json");
}

TEST(Jobs, WhatIsLeftOutHasADefault) {
  const JobsFile jobs = Read(WithJob("name = \"a\"\nmodel = \"tiny-mlp\"\nbatch = 8\nsteps = 3\n"));
  EXPECT_EQ(jobs.cluster, "dir/clusters/lab.toml");
  EXPECT_EQ(jobs.share.switch_cost.value, 0);
  EXPECT_EQ(jobs.share.minimum_gain, 0.03);
  EXPECT_EQ(jobs.share.lease.value, 0);
  EXPECT_EQ(jobs.share.most_slowdown, 4);
  EXPECT_EQ(jobs.share.order, TurnOrder::kRotation);
  ASSERT_EQ(jobs.jobs.size(), 1U);
  const JobSpec& job = jobs.jobs[0];
  EXPECT_EQ(job.request.strategy, "dp");
  EXPECT_EQ(job.request.batch, 8);
  EXPECT_EQ(job.steps, 3);
  EXPECT_EQ(job.weight, 1);
  EXPECT_EQ(job.priority, 0);
  EXPECT_FALSE(job.tolerated_slowdown);
  EXPECT_EQ(job.request.sync, GradientSync::kAllReduce);
  EXPECT_TRUE(job.overlap);
  EXPECT_FALSE(job.request.compress);
}

TEST(Jobs, EveryFieldIsKept) {
  const JobsFile jobs = Read(std::string(kHead) + R"(
profile = "times.json"
[share]
switch = "1 ms"
minimum_gain = 0.1
most_slowdown = 2.5
lease = "5 s"
order = "deficit"
[[job]]
name = "a-1"
model = "profiles/x.txt"
profile_batch = 64
profile_device = "v100"
batch = 32
microbatches = 4
strategy = "async"
dtype = "bf16"
optimizer = "sgd"
clip = 2.5
links = "exclusive"
versions = "2bw"
steps = 100
weight = 2
priority = -3
tolerated_slowdown = 1.25
sync = "ps"
overlap = false
compress = "fp16"
[[job]]
name = "b"
plan = "plans/b.json"
steps = 7
)");
  EXPECT_EQ(jobs.profile, "dir/times.json");
  EXPECT_EQ(jobs.share.switch_cost.value, 1e-3);
  EXPECT_EQ(jobs.share.minimum_gain, 0.1);
  EXPECT_EQ(jobs.share.lease.value, 5);
  EXPECT_EQ(jobs.share.most_slowdown, 2.5);
  EXPECT_EQ(jobs.share.order, TurnOrder::kDeficit);
  ASSERT_EQ(jobs.jobs.size(), 2U);
  const JobSpec& a = jobs.jobs[0];
  EXPECT_EQ(a.request.model, "dir/profiles/x.txt");
  EXPECT_EQ(a.request.profile_batch, 64);
  EXPECT_EQ(a.request.profile_device, "v100");
  EXPECT_EQ(a.request.microbatches, 4);
  EXPECT_EQ(a.request.strategy, "async");
  EXPECT_EQ(a.request.dtype, DType::kBf16);
  EXPECT_EQ(a.request.optimizer, Optimizer::kSgd);
  EXPECT_EQ(a.request.clip, 2.5);
  EXPECT_EQ(a.request.links, LinkModel::kExclusive);
  EXPECT_EQ(a.request.versions, WeightVersions::kTwo);
  EXPECT_EQ(a.weight, 2);
  EXPECT_EQ(a.priority, -3);
  EXPECT_EQ(a.tolerated_slowdown, 1.25);
  EXPECT_EQ(a.request.sync, GradientSync::kServers);
  EXPECT_FALSE(a.overlap);
  EXPECT_EQ(a.gradient_keys, (std::vector<std::string>{"overlap", "sync", "compress"}));
  EXPECT_TRUE(jobs.jobs[1].gradient_keys.empty());
  EXPECT_TRUE(a.request.compress);
  EXPECT_EQ(jobs.jobs[1].plan, "dir/plans/b.json");
}

TEST(Jobs, RefusalsNameFileFieldAndRemedy) {
  struct Case {
    std::string text, says;
  };
  const std::string good = "name = \"a\"\nmodel = \"tiny-mlp\"\nbatch = 8\nsteps = 3\n";
  const Case cases[] = {
      {"cluster = \"x\"", "dir/jobs.toml: schema: missing"},
      {"schema = \"heddle.jobs/2\"\ncluster = \"x\"", "expected \"heddle.jobs/1\""},
      {"schema = \"heddle.jobs/1\"", "cluster: missing"},
      {kHead, "has no [[job]]"},
      {std::string(kHead) + "job = []", "0 jobs"},
      {std::string(kHead) + "jobs = 1", "unknown field \"jobs\""},
      {WithJob("model = \"tiny-mlp\"\nbatch = 8\nsteps = 3"), "job[0].name: missing"},
      {WithJob("name = \"a/b\"\nmodel = \"m\"\nbatch = 8\nsteps = 3"), "\"a/b\" is no name"},
      {WithJob("name = \"a\"\nbatch = 8\nsteps = 3"), "has neither model nor plan"},
      {WithJob("name = \"a\"\nmodel = \"m\"\nsteps = 3"), "job[0].batch: missing"},
      {WithJob("name = \"a\"\nmodel = \"m\"\nbatch = 8"), "job[0].steps: missing"},
      {WithJob("name = \"a\"\nmodel = \"m\"\nbatch = 8\nsteps = 0"), "steps: 0 is out of range"},
      {WithJob(good + "wieght = 2"), "unknown field \"wieght\""},
      {WithJob(good + "weight = 0"), "weight: 0 is out of range"},
      {WithJob(good + "weight = \"much\""), "expected a number"},
      {WithJob(good + "microbatches = 9"), "microbatches: 9 is out of range"},
      {WithJob(good + "tolerated_slowdown = 0.9"), "tolerated_slowdown: 0.9 is out of range"},
      {WithJob(good + "sync = \"gossip\""), "allreduce or ps"},
      {WithJob(good + "compress = \"int8\""), "\"int8\" is unknown"},
      {WithJob(good + "optimizer = \"magic\""), "sgd, momentum, adam or adamw"},
      {WithJob(good + "plan = \"p.json\""), "stands beside plan"},
      {WithJob(good + "versions = \"2bw\""),
       "job[0].versions: has no effect with strategy = \"dp\""},
      {WithJob(good + "versions = \"stash\"\nstrategy = \"1f1b\""),
       "it goes with strategy = \"async\""},
      {WithJob(good + "profile_batch = 4"), "job[0].profile_batch: has no effect"},
      {WithJob(good + "profile_device = \"x\""), "\"tiny-mlp\" is no layer profile"},
      {WithJob(good) + "[[job]]\n" + good, "job[1].name: \"a\" is the name of an earlier job"},
      {std::string(kHead) + "[share]\nswitch = 1\n[[job]]\n" + good, "share.switch"},
      {std::string(kHead) + "[share]\nminimum_gain = -1\n[[job]]\n" + good, "share.minimum_gain"},
      {std::string(kHead) + "[share]\nmost_slowdown = 0.5\n[[job]]\n" + good,
       "share.most_slowdown: 0.5 is out of range"},
      {std::string(kHead) + "[share]\nlease = \"1 ms\"\n[[job]]\n" + good, "share.lease"},
      {std::string(kHead) + "[share]\norder = \"random\"\n[[job]]\n" + good, "share.order"},
  };
  for (const Case& c : cases) {
    const std::string said = Refused(c.text);
    EXPECT_NE(said.find(c.says), std::string::npos) << c.text << "\n" << said;
    EXPECT_NE(said.find("dir/jobs.toml"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace heddle
