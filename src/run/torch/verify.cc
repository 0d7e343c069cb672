#include "run/torch/verify.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "program/unroll.h"
#include "run/data/synthetic.h"
#include "run/torch/device_threads.h"
#include "run/torch/reference.h"

namespace heddle {
namespace {

at::Tensor PartOf(const at::Tensor& whole, const Slice& slice) {
  at::Tensor part = whole;
  for (size_t axis = 0; axis < slice.size(); ++axis) {
    part = part.narrow(static_cast<int64_t>(axis), slice[axis].begin, slice[axis].size());
  }
  return part;
}

// The largest difference of a part, relative to the largest element of the whole reference.
double Difference(const at::Tensor& got, const at::Tensor& whole, const Slice& part) {
  const at::Tensor expected = PartOf(whole, part);
  if (got.sizes() != expected.sizes()) return INFINITY;
  if (got.numel() == 0) return 0;
  const double scale = std::max(whole.abs().max().item<double>(), 1e-30);
  const double error = (got - expected).abs().max().item<double>() / scale;
  return std::isnan(error) ? INFINITY : error;
}

// What a device holds of each parameter, and so of its gradient.
std::map<std::string, Slice> HeldParts(const Program& program, const Graph& graph, size_t device) {
  std::map<std::string, Slice> parts;
  for (const BufferRef& ref : program.devices[device].holds) {
    parts[program.tensor(ref.tensor).name] = program.SliceOf(ref.tensor, ref.slice);
  }
  for (const Parameter& parameter : graph.parameters()) {
    const auto held = parts.find(graph.tensor(parameter.tensor).name);
    if (held != parts.end()) parts[graph.tensor(parameter.gradient).name] = held->second;
  }
  return parts;
}

// One replica of its weights?
bool HoldsOne(const DeviceProgram& device) {
  return std::all_of(device.holds.begin(), device.holds.end(),
                     [](const BufferRef& ref) { return ref.replica < 0; });
}

class Comparison {
 public:
  explicit Comparison(double tolerance) : tolerance_(tolerance) { result_.ok = true; }

  void Add(double error, double& most, const std::string& where) {
    most = std::max(most, error);
    if (error > worst_) {
      worst_ = error;
      result_.worst = fmt::format("{}: relative error {:.3g}", where, error);
    }
    if (!(error <= tolerance_)) result_.ok = false;
  }

  Verification& result() { return result_; }

 private:
  double tolerance_;
  double worst_ = -1;
  Verification result_;
};

}  // namespace

Result<Verification> VerifyProgram(const Program& program, const Graph& graph,
                                   const VerifyOptions& options) {
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::kOpaque) continue;
    return BadInput("verify",
                    fmt::format("layer {} is a profile: it has times, no arithmetic", op.name),
                    "verify a model of the zoo");
  }
  TrainOptions train = options.train;
  train.keep_gradients = true;
  const std::unique_ptr<DataSource> data = MakeSyntheticData(graph, {.seed = train.seed});
  const Executors executors = MakeExecutors(program, graph, *data, train);
  HEDDLE_RETURN_IF_ERROR(RunThreads(program, options.steps, executors));
  const int64_t steps = options.steps * StepsPerBody(program) + StepsOutsideBody(program);
  const NormalisationGroups groups = GroupsOf(program, graph.batch());
  const std::vector<Trained> references =
      options.local
          ? TrainLocally(graph, options.train, options.steps, groups, *options.local)
          : std::vector<Trained>{TrainDirectly(graph, options.train, steps, groups, options.ages)};
  Comparison comparison(options.tolerance);
  Verification& result = comparison.result();
  for (int64_t step = 0; step < steps; ++step) {
    double loss = 0;
    for (const auto& executor : executors) loss += executor->TakeLoss(step);
    const double reference = references[0].losses[static_cast<size_t>(step)];
    comparison.Add(std::abs(loss - reference) / std::max(std::abs(reference), 1e-30),
                   result.max_loss_error, fmt::format("loss of step {}", step));
  }
  for (size_t d = 0; d < executors.size(); ++d) {
    const std::string& device = program.devices[d].name;
    // Replicas: one per device, or all on each, of which the last was updated last.
    const bool whole = references.size() == executors.size() && HoldsOne(program.devices[d]);
    const Trained& expected = whole ? references[d] : references.back();
    const std::map<std::string, Slice> parts = HeldParts(program, graph, d);
    for (const auto& [name, gradient] : executors[d]->gradients()) {
      comparison.Add(Difference(gradient, expected.gradients.at(name), parts.at(name)),
                     result.max_gradient_error, fmt::format("gradient {} on {}", name, device));
    }
    for (const auto& [name, parameter] : executors[d]->Values(Role::kParameter)) {
      comparison.Add(Difference(parameter, expected.parameters.at(name), parts.at(name)),
                     result.max_parameter_error, fmt::format("parameter {} on {}", name, device));
    }
  }
  return result;
}

}  // namespace heddle
