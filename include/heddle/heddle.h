// heddle as a library: load a model and a cluster; plan, check, simulate, explain, write.
//
//   using namespace heddle::api;
//   const Result<Model> model = Model::Load("gpt?layers=24");
//   const Result<Cluster> cluster = Cluster::Load("lab.toml");
//   …
//   const Result<Plan> plan = MakePlan(model.value(), cluster.value(), {.batch = 64});
//   std::cout << Explain(plan.value()).value();
//
// docs/library.md has the whole, and how to link it. All values are immutable and cheap to copy:
// copies share what they hold. Several threads may use them at the same time.
#pragma once

#include <heddle/result.h>
#include <heddle/version.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace heddle::api {

const char* Version();  // of the library that is linked: "0.1.0"

// What is trained.
class Model {
 public:
  // As --model takes it: a zoo model with its keys, "gpt?layers=24", or a layer profile, a path.
  static Result<Model> Load(const std::string& spec);
  static std::vector<std::string> ZooNames();

  const std::string& spec() const;
  int64_t parameters() const;
  const std::vector<std::string>& layers() const;  // in order

 private:
  struct State;
  explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

struct Device {
  std::string name;  // "a:0"
  std::string type;
  std::string node;
  int64_t memory_bytes = 0;
};

// Where it is trained.
class Cluster {
 public:
  static Result<Cluster> Load(const std::string& path);  // docs/cluster.md
  // The same of text; `name` stands for the file in errors.
  static Result<Cluster> Parse(const std::string& toml, const std::string& name);

  const std::vector<Device>& devices() const;

 private:
  friend class Plan;
  struct State;
  explicit Cluster(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// What is asked of a planner.
struct Request {
  int64_t batch = 256;            // samples per update, over all devices
  std::string strategy = "auto";  // or one of Strategies()
  // After so long the best plan so far is taken. 0: 60 for auto, no limit for one strategy.
  double budget_seconds = 0;
  std::string profile;  // measured times of ops (heddle profile); empty: analytic costs
  // All else, by the names of docs/request.md: {{"microbatches", "8"}, {"dtype", "bf16"}}
  std::map<std::string, std::string> fields;
};
std::vector<std::string> Strategies();

class Plan;
Result<Plan> MakePlan(const Model& model, const Cluster& cluster, const Request& request);

struct DeviceMemory {
  std::string device;
  int64_t peak_bytes = 0;
  int64_t capacity_bytes = 0;
};

struct Finding {
  std::string kind;     // "deadlock"
  std::string message;  // names device, instruction and buffer
};

// Of a plan's Program, by a walk through it that knows no times.
struct Verdict {
  bool ok = false;
  std::vector<Finding> findings;     // none if ok
  std::vector<DeviceMemory> memory;  // of the devices used
};
Result<Verdict> Check(const Plan& plan);

struct DeviceUse {
  std::string device;
  double busy_seconds = 0;  // computing, in one iteration
  double idle_seconds = 0;
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
};

struct Event {
  std::string lane;  // "a:0 compute"
  std::string what;
  int microbatch = -1;  // -1: none
  double start_seconds = 0;
  double end_seconds = 0;
};

struct Simulation {
  double iteration_seconds = 0;  // once it is steady
  double makespan_seconds = 0;   // of the first one
  std::vector<DeviceUse> devices;
  std::vector<Event> events;  // in the order of their start
  std::string trace;          // all of them for ui.perfetto.dev, as JSON
};
Result<Simulation> Simulate(const Plan& plan);

// What heddle explain prints: what limits the plan, how far it is from the bounds, its devices, the
// search. Lines are broken at `width`; 0: nowhere. `all`: also what is folded otherwise.
Result<std::string> Explain(const Plan& plan, int width = 80, bool all = false);

// Who does what, and how good that is.
class Plan {
 public:
  // One that was written, by Write or by heddle plan. A plan that was edited by hand is looked
  // over; with other than its own model, cluster or profile it is refused.
  static Result<Plan> Load(const std::string& path, const std::string& profile = "");

  const std::string& strategy() const;  // the one taken, where auto was asked for
  const std::string& model() const;     // its spec
  int64_t batch() const;
  int64_t microbatches() const;
  int devices_used() const;
  double seconds_per_batch() const;  // simulated
  double planning_seconds() const;

  std::string Text(int width = 80) const;  // the decisions, as heddle plan prints them
  std::string Json() const;                // docs/plan.md
  Status Write(const std::string& path) const;
  Result<std::string> Program() const;  // what each device does, in order: docs/program.md

 private:
  friend Result<Plan> MakePlan(const Model&, const Cluster&, const Request&);
  friend Result<Verdict> Check(const Plan&);
  friend Result<Simulation> Simulate(const Plan&);
  friend Result<std::string> Explain(const Plan&, int, bool);
  struct State;
  static Result<Plan> Make(const Model& model, const Cluster& cluster, const Request& request);
  explicit Plan(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace heddle::api
