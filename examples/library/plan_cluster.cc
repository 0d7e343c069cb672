// Plans a model on a cluster through heddle as a library, proves the plan well formed, simulates
// it, and writes it.
//
//   plan_cluster 'gpt?layers=4' cluster.toml plan.json

#include <heddle/heddle.h>

#include <algorithm>
#include <iostream>

namespace {

using heddle::api::Check;
using heddle::api::Cluster;
using heddle::api::DeviceUse;
using heddle::api::Error;
using heddle::api::MakePlan;
using heddle::api::Model;
using heddle::api::Plan;
using heddle::api::Request;
using heddle::api::Result;
using heddle::api::Simulate;
using heddle::api::Simulation;
using heddle::api::Status;
using heddle::api::Verdict;

int Fail(const Error& error) {
  std::cerr << "plan_cluster: " << error.Text() << "\n";
  return static_cast<int>(error.kind);
}

int PlanCluster(const std::string& spec, const std::string& cluster_file, const std::string& file) {
  const Result<Model> model = Model::Load(spec);
  if (!model.ok()) return Fail(model.error());
  const Result<Cluster> cluster = Cluster::Load(cluster_file);
  if (!cluster.ok()) return Fail(cluster.error());

  Request request;
  request.batch = 32;
  request.strategy = "1f1b";
  request.fields = {{"microbatches", "8"}};
  const Result<Plan> plan = MakePlan(model.value(), cluster.value(), request);
  if (!plan.ok()) return Fail(plan.error());
  std::cout << plan.value().Text() << "\n";

  const Result<Verdict> verdict = Check(plan.value());
  if (!verdict.ok()) return Fail(verdict.error());
  for (const auto& finding : verdict.value().findings) std::cout << finding.message << "\n";

  const Result<Simulation> simulation = Simulate(plan.value());
  if (!simulation.ok()) return Fail(simulation.error());
  const auto& devices = simulation.value().devices;
  const auto busiest = std::max_element(
      devices.begin(), devices.end(),
      [](const DeviceUse& a, const DeviceUse& b) { return a.busy_seconds < b.busy_seconds; });
  std::cout << busiest->device
            << " is busiest: " << 100 * busiest->busy_seconds / simulation.value().iteration_seconds
            << "% of the time\n";

  const Status written = plan.value().Write(file);
  return written.ok() ? 0 : Fail(written.error());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: plan_cluster MODEL CLUSTER PLAN\n";
    return 2;
  }
  return PlanCluster(argv[1], argv[2], argv[3]);
}
