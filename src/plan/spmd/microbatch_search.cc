#include "plan/spmd/microbatch_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "plan/sample_seconds.h"

namespace heddle {
namespace {

// The part of all devices' memory that any plan needs at the end of forward: every activation that
// backward reads, every parameter and its state, each at least once.
double LeastFill(const Planning& planning, int64_t microbatches) {
  const Graph& graph = planning.graph;
  std::set<TensorId> kept;
  for (const Op& op : graph.ops()) {
    const bool backward = op.phase == Phase::kBackwardInput || op.phase == Phase::kBackwardWeight;
    for (const Operand& input : op.inputs) {
      if (backward && graph.tensor(input.tensor).role == Role::kActivation) {
        kept.insert(input.tensor);
      }
    }
  }
  double activations = 0, weights = 0, memory = 0;
  for (const TensorId id : kept) activations += static_cast<double>(graph.tensor(id).bytes().value);
  for (const Tensor& tensor : graph.tensors()) {
    const bool held = tensor.role == Role::kParameter || tensor.role == Role::kState;
    if (held) weights += static_cast<double>(tensor.bytes().value);
  }
  for (int device = 0; device < planning.cluster->device_count(); ++device) {
    memory += static_cast<double>(planning.type_of(device).memory.value);
  }
  return (activations / static_cast<double>(microbatches) + weights) / memory;
}

bool Unequal(const Cluster& cluster) {
  return std::any_of(cluster.devices().begin(), cluster.devices().end(), [&](const Device& device) {
    return device.type != cluster.devices()[0].type;
  });
}

// What the fastest node alone would compute at least, and nothing else.
double OneNodeSeconds(const Planning& planning) {
  const auto layers = LayerSampleSeconds(planning, planning.options.batch,
                                         {&ChainLayer::forward, &ChainLayer::backward});
  double most = 0;  // samples per second
  for (const Node& node : planning.cluster->nodes()) {
    double speed = 0;
    for (const DeviceId id : node.devices) {
      const auto& seconds = layers[static_cast<size_t>(planning.cluster->device(id).type)];
      speed += 1 / std::accumulate(seconds.begin(), seconds.end(), 0.0);
    }
    most = std::max(most, speed);
  }
  return static_cast<double>(planning.options.batch) / most;
}

class PartSearch {
 public:
  PartSearch(const Planning& planning, const std::string& strategy, const ProgramFinder& find,
             Best& best)
      : planning_(planning), strategy_(strategy), find_(find), best_(best) {}

  // What is found for so many microbatches. Says whether any of it fits.
  Result<bool> Try(int64_t microbatches) {
    Result<std::vector<SpmdCandidate>> candidates = CandidatesFor(microbatches);
    if (!candidates.ok()) {
      if (candidates.error().kind != ErrorKind::kInfeasible) return candidates.error();
      refused_ = candidates.error();
      return false;
    }
    return TryCandidates(std::move(candidates).value(), microbatches);
  }

  // The most microbatches first: if even they need too much, so do fewer, and a search that finds
  // nothing takes longest. Fewer are not worth a try where memory would be nearly full at best.
  Status TrySeveral() {
    constexpr int64_t kMost = 8;
    constexpr double kNearlyFull = 0.75;
    for (int64_t microbatches = kMost; microbatches > 1; microbatches /= 2) {
      const bool hopeless =
          microbatches < kMost && LeastFill(planning_, microbatches) > kNearlyFull;
      if (planning_.options.batch % microbatches != 0 || hopeless) continue;
      HEDDLE_ASSIGN(const bool fits, Try(microbatches));
      if (!fits) break;
    }
    return Ok();
  }

  const std::optional<Error>& refused() const { return refused_; }

 private:
  // The search for a part of the batch. It counts sums of gradients and updates in every microbatch
  // though they come once: the plans fit, and are not sure to be the best.
  Result<std::vector<SpmdCandidate>> CandidatesFor(int64_t microbatches) const {
    if (microbatches == 1) return find_(planning_);
    PlanOptions options = planning_.options;
    options.batch = planning_.options.batch / microbatches;
    HEDDLE_ASSIGN(const Planning part,
                  Planning::Make(options, *planning_.cluster, planning_.profile));
    return find_(part);
  }

  Result<bool> TryCandidates(std::vector<SpmdCandidate> candidates, int64_t microbatches) {
    // A few at a time: once there is a good one, the memory of slower ones need not be checked.
    constexpr size_t kTogether = 4;
    bool fits = false;
    std::vector<Plan> plans;
    std::vector<std::string> how;
    for (size_t k = 0; k < candidates.size(); ++k) {
      SpmdCandidate& candidate = candidates[k];
      Plan plan = planning_.Blank(strategy_, "");
      plan.microbatches = microbatches;
      plan.spmd = std::move(candidate.plan);
      if (microbatches > 1) candidate.how += fmt::format(", {} microbatches", microbatches);
      plans.push_back(plan);
      how.push_back(candidate.how);
      if (microbatches > 1) {
        plan.spmd->converts_each = true;
        plans.push_back(std::move(plan));
        how.push_back(candidate.how + ", gradients exchanged after each");
      }
      if (plans.size() < kTogether && k + 1 < candidates.size()) continue;
      HEDDLE_ASSIGN(const std::vector<Best::Outcome> outcomes,
                    best_.TryAll(std::exchange(plans, {}), std::exchange(how, {})));
      for (const Best::Outcome outcome : outcomes) fits |= outcome != Best::Outcome::kDoesNotFit;
    }
    return fits;
  }

  const Planning& planning_;
  const std::string& strategy_;
  const ProgramFinder& find_;
  Best& best_;
  std::optional<Error> refused_;
};

}  // namespace

Result<std::optional<Error>> TryPrograms(const Planning& planning, const std::string& strategy,
                                         const ProgramFinder& find, Best& best) {
  const int64_t batch = planning.options.batch;
  std::optional<int64_t> given = planning.options.microbatches;
  if (given && batch % *given != 0) {
    given = std::min(*given, batch);
    while (batch % *given != 0) ++*given;
    best.Note(fmt::format("{} microbatches: all of one size", *given));
  }
  PartSearch search(planning, strategy, find, best);
  bool fits = false;
  const double fill = LeastFill(planning, 1);
  if (given || fill <= 1) {
    HEDDLE_ASSIGN(fits, search.Try(given.value_or(1)));
  }
  constexpr double kTight = 0.4;
  if (!given && fits && fill > kTight && Unequal(*planning.cluster)) {
    // It may fit at once only because fast devices have little: in parts it may be faster.
    for (const int64_t microbatches : {2, 4}) {
      if (batch % microbatches != 0) continue;
      HEDDLE_RETURN_IF_ERROR(search.Try(microbatches));
    }
  } else if (!given && !fits) {
    HEDDLE_RETURN_IF_ERROR(search.TrySeveral());
  }
  // On a slow network one node may be faster, whose memory the batch at once would not fit.
  constexpr int64_t kParts = 8;
  if (!given && fits && batch % kParts == 0 && planning.cluster->nodes().size() > 1 &&
      OneNodeSeconds(planning) < best.seconds()) {
    HEDDLE_RETURN_IF_ERROR(search.Try(kParts));
  }
  if (best.tried() == 0 && !search.refused()) {  // no number of microbatches divides the batch
    HEDDLE_RETURN_IF_ERROR(search.Try(1));
  }
  return search.refused();
}

}  // namespace heddle
