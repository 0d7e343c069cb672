// The order in which the folded sweep looks at the ops of a layer: a beam search for one that keeps
// few tensors live, since the number of states is exponential in that.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "plan/spmd/frontier.h"

namespace heddle {
namespace {

// A layer's ops in the graph's order, its tensors numbered as they first occur.
struct LayerShape {
  struct Tensor {
    int left = 0;       // touches by this layer and later ones
    bool live = false;  // already, before the layer
    auto operator<=>(const Tensor&) const = default;
  };
  std::vector<std::vector<int>> touches;  // by op
  std::vector<Tensor> tensors;
  auto operator<=>(const LayerShape&) const = default;
};

LayerShape ShapeOf(const SpmdProblem& problem, const std::vector<int>& ops,
                   const std::vector<int>& left) {
  LayerShape shape;
  std::map<int, int> numbers;
  for (const int op : ops) {
    shape.touches.emplace_back();
    for (const Touch& touch : problem.op(op).touches) {
      const auto [found, fresh] =
          numbers.try_emplace(touch.tensor, static_cast<int>(shape.tensors.size()));
      shape.touches.back().push_back(found->second);
      if (!fresh) continue;
      const int count = left[static_cast<size_t>(touch.tensor)];
      shape.tensors.push_back({count, count < problem.touches_of(touch.tensor)});
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
        near = near || (!node->done[op] && IsNear(*node, static_cast<int>(op)));
      }
      for (size_t k = 0; k < node->done.size(); ++k) {
        const auto op = static_cast<int>(k);
        if (node->done[k] || (near && !IsNear(*node, op))) continue;
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

std::vector<int> FoldedOrder(const SpmdProblem& problem) {
  const Graph& graph = problem.graph();
  std::vector<std::vector<int>> layers(graph.layers().size());
  for (size_t k = 0; k < graph.ops().size(); ++k) {
    layers[static_cast<size_t>(graph.ops()[k].layer.value)].push_back(static_cast<int>(k));
  }
  std::vector<int> left(graph.tensors().size());
  for (size_t t = 0; t < left.size(); ++t) left[t] = problem.touches_of(static_cast<int>(t));
  std::map<LayerShape, std::vector<int>> orders;
  std::vector<int> order;
  for (const std::vector<int>& layer : layers) {
    const auto [found, fresh] = orders.try_emplace(ShapeOf(problem, layer, left));
    if (fresh) found->second = OrderBeam(found->first).Run();
    for (const int k : found->second) order.push_back(layer[static_cast<size_t>(k)]);
    for (const int op : layer) {
      for (const Touch& touch : problem.op(op).touches) --left[static_cast<size_t>(touch.tensor)];
    }
  }
  return order;
}

}  // namespace heddle
