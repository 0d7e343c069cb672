#include "run/torch/verify.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "program/unroll.h"
#include "run/data/synthetic.h"
#include "run/torch/reference.h"
#include "run/torch/torch_threads.h"

namespace heddle {
namespace {

at::Tensor PartOf(const at::Tensor& whole, const Slice& slice) {
  at::Tensor part = whole;
  for (size_t axis = 0; axis < slice.size(); ++axis) {
    part = part.narrow(static_cast<int64_t>(axis), slice[axis].begin, slice[axis].size());
  }
  return part;
}

double Largest(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.abs().max().item<double>();
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

// The reference of each replica, or the only one; and how far rounding moved it, the farthest of
// all draws: element by element, and the losses.
struct Reference {
  Trained plain;
  Trained moved;
};

Trained Distances(const Trained& a, const Trained& b) {
  Trained distances;
  for (size_t k = 0; k < a.losses.size(); ++k) {
    distances.losses.push_back(std::abs(a.losses[k] - b.losses[k]));
  }
  for (const auto& [name, tensor] : a.gradients) {
    distances.gradients[name] = (tensor - b.gradients.at(name)).abs_();
  }
  for (const auto& [name, tensor] : a.parameters) {
    distances.parameters[name] = (tensor - b.parameters.at(name)).abs_();
  }
  return distances;
}

void TakeLargest(Trained& most, const Trained& other) {
  for (size_t k = 0; k < most.losses.size(); ++k) {
    most.losses[k] = std::max(most.losses[k], other.losses[k]);
  }
  for (auto& [name, tensor] : most.gradients) {
    at::maximum_out(tensor, tensor, other.gradients.at(name));
  }
  for (auto& [name, tensor] : most.parameters) {
    at::maximum_out(tensor, tensor, other.parameters.at(name));
  }
}

bool TravelsInHalves(const Program& program) {
  for (const DeviceProgram& device : program.devices) {
    for (const std::vector<Instruction>& section : device.sections) {
      const auto half = [](const Instruction& in) { return in.half; };
      if (std::any_of(section.begin(), section.end(), half)) return true;
    }
  }
  return false;
}

// Training on one device, as often as asked: first plain, then off by rounding.
class References {
 public:
  References(const Program& program, const Graph& graph, const VerifyOptions& options)
      : graph_(graph),
        options_(options),
        steps_(options.steps * StepsPerBody(program) + StepsOutsideBody(program)),
        groups_(GroupsOf(program, graph.batch())),
        halves_(TravelsInHalves(program)) {
    for (Trained& trained : Train(nullptr)) all_.push_back({std::move(trained), {}});
    Draw();
  }

  void Draw() {
    Rounding rounding(graph_, options_.train, {draws_, halves_});
    const std::vector<Trained> off = Train(&rounding);
    for (size_t r = 0; r < all_.size(); ++r) {
      Trained distances = Distances(off[r], all_[r].plain);
      draws_ == 0 ? void(all_[r].moved = std::move(distances))
                  : TakeLargest(all_[r].moved, distances);
    }
    ++draws_;
  }

  const std::vector<Reference>& all() const { return all_; }
  int64_t steps() const { return steps_; }
  int64_t draws() const { return draws_; }

 private:
  std::vector<Trained> Train(Rounding* rounding) const {
    if (options_.local) {
      return TrainLocally(graph_, options_.train, options_.steps, groups_, *options_.local,
                          rounding);
    }
    return {TrainDirectly(graph_, options_.train, steps_, groups_, options_.ages, rounding)};
  }

  const Graph& graph_;
  const VerifyOptions& options_;
  int64_t steps_;
  NormalisationGroups groups_;
  bool halves_;
  std::vector<Reference> all_;
  int64_t draws_ = 0;
};

class Comparison {
 public:
  explicit Comparison(double unit) : unit_(unit) { result_.ok = true; }

  // `scale` and `moved` are the largest of the reference, and of what rounding did to it.
  void Add(double error, double scale, double moved, double& most, const std::string& where) {
    if (std::isnan(error)) error = INFINITY;
    // Whatever it hangs on, it was rounded where it was written.
    const double explained = kRoundingFactor * std::max(moved, unit_ * scale);
    double share = error == 0 ? 0 : error / explained;
    if (std::isnan(share)) share = INFINITY;
    const bool noise = explained >= kNoise * scale;
    ++result_.tensors;
    if (noise) ++result_.rounding_alone;
    if (!noise) most = std::max(most, error / scale);
    if (!(share <= 1)) result_.ok = false;
    if (share < result_.share || (share == result_.share && !result_.worst.empty())) return;
    result_.share = share;
    const double unit = scale > 0 ? scale : 1;
    result_.worst = fmt::format("{}: relative error {:.3g}, rounding explains {:.3g}", where,
                                error / unit, explained / unit);
  }

  // The part of the tensors that is held.
  void Add(const at::Tensor& got, const at::Tensor& plain, const at::Tensor& moved,
           const Slice& part, double& most, const std::string& where) {
    const at::Tensor expected = PartOf(plain, part);
    const bool comparable = got.sizes() == expected.sizes();
    Add(comparable ? Largest(got - expected) : INFINITY, Largest(plain),
        Largest(PartOf(moved, part)), most, where);
  }

  Verification& result() { return result_; }

 private:
  static constexpr double kNoise = 0.1;

  double unit_;
  Verification result_;
};

Verification Compare(const Program& program, const Graph& graph, const Executors& executors,
                     const std::vector<double>& losses, const std::vector<Reference>& references) {
  Comparison comparison(UnitRoundoff(executors[0]->dtype()));
  Verification& result = comparison.result();
  for (size_t step = 0; step < losses.size(); ++step) {
    const double expected = references[0].plain.losses[step];
    comparison.Add(std::abs(losses[step] - expected), std::abs(expected),
                   references[0].moved.losses[step], result.max_loss_error,
                   fmt::format("loss of step {}", step));
  }
  for (size_t d = 0; d < executors.size(); ++d) {
    const std::string& device = program.devices[d].name;
    // Replicas: one per device, or all on each, of which the last was updated last.
    const bool whole = references.size() == executors.size() && HoldsOne(program.devices[d]);
    const auto& [plain, moved] = whole ? references[d] : references.back();
    const std::map<std::string, Slice> parts = HeldParts(program, graph, d);
    for (const auto& [name, gradient] : executors[d]->gradients()) {
      comparison.Add(gradient, plain.gradients.at(name), moved.gradients.at(name), parts.at(name),
                     result.max_gradient_error, fmt::format("gradient {} on {}", name, device));
    }
    for (const auto& [name, parameter] : executors[d]->Values(Role::kParameter)) {
      comparison.Add(parameter, plain.parameters.at(name), moved.parameters.at(name),
                     parts.at(name), result.max_parameter_error,
                     fmt::format("parameter {} on {}", name, device));
    }
  }
  return result;
}

// A draw may happen to move a tensor of few elements by little. Suspicion asks for another.
constexpr int64_t kMostDraws = 6;

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
  References references(program, graph, options);
  std::vector<double> losses;
  for (int64_t step = 0; step < references.steps(); ++step) {
    losses.push_back(0);
    for (const auto& executor : executors) losses.back() += executor->TakeLoss(step);
  }
  const auto compare = [&] { return Compare(program, graph, executors, losses, references.all()); };
  Verification result = compare();
  while (!result.ok && references.draws() < kMostDraws) {
    references.Draw();
    result = compare();
  }
  return result;
}

}  // namespace heddle
