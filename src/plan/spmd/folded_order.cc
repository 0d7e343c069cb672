// The order in which the folded sweep looks at the ops of a layer: a beam search for one that keeps
// few tensors live, since the number of states is exponential in that.
//
// Ops are taken in units. An update, what makes its gradient and what squares that for clipping are
// one, so that the gradient's layout is forgotten at once; and they come after everything in the
// layer that reads the weight, when it is known which layouts of it are wanted.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "plan/spmd/frontier.h"

namespace heddle {
namespace {

// A layer's units in the order of their first ops, its tensors numbered as they first occur.
struct LayerShape {
  struct Tensor {
    int left = 0;       // touches by this layer and later ones
    bool live = false;  // already, before the layer
    auto operator<=>(const Tensor&) const = default;
  };
  std::vector<std::vector<int>> touches;  // by unit
  std::vector<std::vector<int>> earlier;  // by unit: tensors that others here must have done with
  std::vector<Tensor> tensors;
  auto operator<=>(const LayerShape&) const = default;
};

using Units = OpOrder;

// REQUIRES: ops in the graph's order.
Units UnitsOf(const SpmdProblem& problem, const std::vector<int>& ops,
              const std::vector<int>& left) {
  constexpr size_t kMostOps = 4;  // in a unit: their choices are one number
  const Graph& graph = problem.graph();
  std::map<int, std::vector<int>> touching;  // gradients of weights, by those that touch them
  for (const int op : ops) {
    for (const Touch& touch : problem.op(op).touches) {
      const auto tensor = static_cast<size_t>(touch.tensor);
      if (graph.tensors()[tensor].role != Role::kWeightGradient) continue;
      if (TensorId{touch.tensor} == graph.clip_norm()) continue;
      touching[touch.tensor].push_back(op);
    }
  }
  std::vector<bool> taken(graph.ops().size(), false);
  std::map<int, std::vector<int>> joined;  // by first op
  for (const auto& [tensor, some] : touching) {
    const bool all = static_cast<int>(some.size()) == left[static_cast<size_t>(tensor)] &&
                     static_cast<int>(some.size()) == problem.touches_of(tensor);
    if (!all || some.size() > kMostOps) continue;
    if (std::any_of(some.begin(), some.end(),
                    [&](int op) { return taken[static_cast<size_t>(op)]; })) {
      continue;
    }
    for (const int op : some) taken[static_cast<size_t>(op)] = true;
    joined[some.front()] = some;
  }
  Units units;
  for (const int op : ops) {
    if (const auto found = joined.find(op); found != joined.end()) {
      units.push_back(found->second);
    } else if (!taken[static_cast<size_t>(op)]) {
      units.push_back({op});
    }
  }
  return units;
}

LayerShape ShapeOf(const SpmdProblem& problem, const Units& units, const std::vector<int>& left) {
  LayerShape shape;
  std::map<int, int> numbers;
  for (const std::vector<int>& unit : units) {
    shape.touches.emplace_back();
    shape.earlier.emplace_back();
    for (const int op : unit) {
      for (const Touch& touch : problem.op(op).touches) {
        const auto [found, fresh] =
            numbers.try_emplace(touch.tensor, static_cast<int>(shape.tensors.size()));
        shape.touches.back().push_back(found->second);
        const auto tensor = static_cast<size_t>(touch.tensor);
        if (touch.produces && problem.graph().tensors()[tensor].role == Role::kParameter) {
          shape.earlier.back().push_back(found->second);
        }
        if (!fresh) continue;
        const int count = left[tensor];
        shape.tensors.push_back({count, count < problem.touches_of(touch.tensor)});
      }
    }
  }
  return shape;
}

class OrderBeam {
 public:
  explicit OrderBeam(const LayerShape& shape) : shape_(shape) {}

  std::vector<int> Run() {
    auto first = std::make_shared<Node>();
    first->done.assign(shape_.touches.size(), false);
    for (const LayerShape::Tensor& tensor : shape_.tensors) {
      first->left.push_back(tensor.left);
      first->live.push_back(tensor.live);
      first->live_count += tensor.live ? 1 : 0;
    }
    std::vector<NodePtr> beam = {std::move(first)};
    for (size_t k = 0; k < shape_.touches.size(); ++k) beam = Extend(beam);
    std::vector<int> order;
    for (const Node* node = beam[0].get(); node->op >= 0; node = node->before.get()) {
      order.push_back(node->op);
    }
    std::reverse(order.begin(), order.end());
    return order;
  }

 private:
  struct Node;
  using NodePtr = std::shared_ptr<const Node>;
  struct Node {
    NodePtr before;
    int op = -1;
    double score = 0;  // the sum over steps of kStates ^ live tensors
    int live_count = 0;
    std::vector<bool> done;
    std::vector<int> left;
    std::vector<bool> live;
  };
  struct Step {
    const NodePtr* from;
    int op;
    double score;
  };

  static constexpr double kStates = 4;  // facts that one live tensor may have, roughly
  static constexpr size_t kWidth = 24;

  // Whether all other units of the layer that touch what `op` must wait for are done.
  bool IsReady(const Node& node, size_t op) const {
    for (const int tensor : shape_.earlier[op]) {
      for (size_t other = 0; other < node.done.size(); ++other) {
        if (node.done[other] || other == op) continue;
        const std::vector<int>& touches = shape_.touches[other];
        if (std::find(touches.begin(), touches.end(), tensor) != touches.end()) return false;
      }
    }
    return true;
  }

  bool IsNear(const Node& node, int op) const {
    const std::vector<int>& touches = shape_.touches[static_cast<size_t>(op)];
    return std::any_of(touches.begin(), touches.end(),
                       [&](int tensor) { return node.live[static_cast<size_t>(tensor)]; });
  }

  // The number of live tensors after the op.
  int LiveAfter(const Node& node, int op) const {
    const std::vector<int>& touches = shape_.touches[static_cast<size_t>(op)];
    int live = node.live_count;
    for (auto it = touches.begin(); it != touches.end(); ++it) {
      if (std::find(touches.begin(), it, *it) != it) continue;
      const auto tensor = static_cast<size_t>(*it);
      const auto count = static_cast<int>(std::count(it, touches.end(), *it));
      live += (node.left[tensor] > count ? 1 : 0) - (node.live[tensor] ? 1 : 0);
    }
    return live;
  }

  std::vector<NodePtr> Extend(const std::vector<NodePtr>& beam) const {
    std::vector<Step> steps;
    for (const NodePtr& node : beam) {
      bool near = false;
      for (size_t op = 0; op < node->done.size(); ++op) {
        near =
            near || (!node->done[op] && IsReady(*node, op) && IsNear(*node, static_cast<int>(op)));
      }
      for (size_t k = 0; k < node->done.size(); ++k) {
        const auto op = static_cast<int>(k);
        if (node->done[k] || !IsReady(*node, k) || (near && !IsNear(*node, op))) continue;
        steps.push_back({&node, op, node->score + std::pow(kStates, LiveAfter(*node, op))});
      }
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.score < b.score; });
    std::vector<NodePtr> next;
    std::set<std::vector<bool>> seen;
    for (const Step& step : steps) {
      NodePtr node = After(step);
      if (seen.insert(node->done).second) next.push_back(std::move(node));
      if (next.size() == kWidth) break;
    }
    return next;
  }

  NodePtr After(const Step& step) const {
    auto node = std::make_shared<Node>(**step.from);
    node->before = *step.from;
    node->op = step.op;
    node->score = step.score;
    node->live_count = LiveAfter(**step.from, step.op);
    node->done[static_cast<size_t>(step.op)] = true;
    for (const int tensor : shape_.touches[static_cast<size_t>(step.op)]) {
      const auto at = static_cast<size_t>(tensor);
      node->live[at] = --node->left[at] > 0;
    }
    return node;
  }

  const LayerShape& shape_;
};

}  // namespace

OpOrder FoldedOrder(const SpmdProblem& problem) {
  const Graph& graph = problem.graph();
  std::vector<std::vector<int>> layers(graph.layers().size());
  for (size_t k = 0; k < graph.ops().size(); ++k) {
    layers[static_cast<size_t>(graph.ops()[k].layer.value)].push_back(static_cast<int>(k));
  }
  std::vector<int> left(graph.tensors().size());
  for (size_t t = 0; t < left.size(); ++t) left[t] = problem.touches_of(static_cast<int>(t));
  std::map<LayerShape, std::vector<int>> orders;
  OpOrder order;
  for (const std::vector<int>& layer : layers) {
    const Units units = UnitsOf(problem, layer, left);
    const auto [found, fresh] = orders.try_emplace(ShapeOf(problem, units, left));
    if (fresh) found->second = OrderBeam(found->first).Run();
    for (const int k : found->second) order.push_back(units[static_cast<size_t>(k)]);
    for (const int op : layer) {
      for (const Touch& touch : problem.op(op).touches) --left[static_cast<size_t>(touch.tensor)];
    }
  }
  return order;
}

}  // namespace heddle
