#include "plan/spmd/potentials.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle {

Potentials::Potentials(SpmdProblem& problem, const std::vector<FrontierStep>& steps,
                       const MemoryLimits* limits)
    : problem_(problem),
      steps_(steps),
      limits_(limits),
      byte_prices_(limits != nullptr ? limits->kinds() : 0, 0) {
  std::vector<std::vector<MannerKey>> by_tensor(problem.graph().tensors().size());
  AddOps(by_tensor);
  AddTensors(by_tensor);
  FindLevels();
  for (size_t k = ops_.size(); k-- > 0;) {
    for (const OpTouch& touch : ops_[k].touches) CarryBack(touch);
  }
  SumUp();
}

void Potentials::AddOps(std::vector<std::vector<MannerKey>>& by_tensor) {
  for (const FrontierStep& step : steps_) {
    begins_.push_back(ops_.size());
    for (const int number : step.ops) {
      const SpmdOp& op = problem_.op(number);
      OpNode node;
      node.number = number;
      for (const OpChoice& choice : *op.choices) node.own.push_back(choice.seconds);
      std::map<int, std::vector<size_t>> touches;  // of each tensor
      for (size_t t = 0; t < op.touches.size(); ++t) touches[op.touches[t].tensor].push_back(t);
      for (const auto& [tensor, which] : touches) {
        const auto [found, fresh] = manners_.try_emplace({op.kind, which});
        if (fresh) found->second = MannerOf(op, which);
        std::vector<MannerKey>& before = by_tensor[static_cast<size_t>(tensor)];
        OpTouch touch{tensor, before.size(), {}, {}, &found->second.slots};
        touch.price.assign(found->second.layouts.size(), 0);
        touch.open.resize(touch.price.size());
        std::iota(touch.open.begin(), touch.open.end(), 0);
        node.touches.push_back(std::move(touch));
        before.push_back(found->first);
      }
      ops_.push_back(std::move(node));
    }
  }
  begins_.push_back(ops_.size());
}

void Potentials::AddTensors(const std::vector<std::vector<MannerKey>>& by_tensor) {
  std::map<std::pair<int, std::vector<MannerKey>>, const TouchChain*> known;
  for (size_t t = 0; t < by_tensor.size(); ++t) {
    const int tensor = static_cast<int>(t);
    const auto [found, fresh] = known.try_emplace({problem_.kind_of(tensor), by_tensor[t]});
    if (fresh) {
      std::vector<const TouchManner*> manners;
      for (const MannerKey& key : by_tensor[t]) manners.push_back(&manners_.at(key));
      chains_.push_back(std::make_unique<TouchChain>(ChainOf(problem_.facts(tensor), manners)));
      found->second = chains_.back().get();
    }
    TensorNode node{found->second, {}, {}};
    for (const size_t size : node.chain->sizes) {
      node.from.emplace_back(size, 0);
      node.to.emplace_back(size, 0);
    }
    tensors_.push_back(std::move(node));
  }
}

void Potentials::FindLevels() {
  std::vector<size_t> seen(tensors_.size(), 0);
  for (size_t step = 0; step < steps_.size(); ++step) {
    levels_.emplace_back();
    for (const int tensor : steps_[step].live) {
      levels_.back().push_back(seen[static_cast<size_t>(tensor)]);
    }
    for (size_t k = begins_[step]; k < begins_[step + 1]; ++k) {
      for (const OpTouch& touch : ops_[k].touches) ++seen[static_cast<size_t>(touch.tensor)];
    }
  }
  levels_.emplace_back();
}

// What the tensor has to cost at least for each slot of the touch.
void Potentials::Collect(const OpTouch& touch, std::vector<double>& marginal) const {
  const TensorNode& tensor = tensors_[static_cast<size_t>(touch.tensor)];
  const TouchChain::Touch& ways = tensor.chain->touches[touch.level];
  const std::vector<double>& from = tensor.from[touch.level];
  const std::vector<double>& to = tensor.to[touch.level + 1];
  marginal.assign(ways.slots, kNever);
  for (size_t fact = 0; fact < from.size(); ++fact) {
    if (from[fact] == kNever) continue;
    const int* next = &ways.next[fact * ways.slots];
    const double* step = &ways.step[fact * ways.slots];
    for (const int slot : touch.open) {
      if (next[slot] < 0) continue;
      const double seconds = from[fact] + step[slot] + to[static_cast<size_t>(next[slot])];
      double& least = marginal[static_cast<size_t>(slot)];
      if (seconds < least) least = seconds;
    }
  }
  for (const int slot : touch.open) {
    marginal[static_cast<size_t>(slot)] += touch.price[static_cast<size_t>(slot)];
  }
}

void Potentials::CarryForward(const OpTouch& touch) {
  TensorNode& tensor = tensors_[static_cast<size_t>(touch.tensor)];
  const TouchChain::Touch& ways = tensor.chain->touches[touch.level];
  const std::vector<double>& from = tensor.from[touch.level];
  std::vector<double>& after = tensor.from[touch.level + 1];
  std::fill(after.begin(), after.end(), kNever);
  for (size_t fact = 0; fact < from.size(); ++fact) {
    if (from[fact] == kNever) continue;
    const int* next = &ways.next[fact * ways.slots];
    const double* step = &ways.step[fact * ways.slots];
    for (const int slot : touch.open) {
      if (next[slot] < 0) continue;
      const double seconds = from[fact] + step[slot] + touch.price[static_cast<size_t>(slot)];
      double& least = after[static_cast<size_t>(next[slot])];
      if (seconds < least) least = seconds;
    }
  }
}

void Potentials::CarryBack(const OpTouch& touch) {
  TensorNode& tensor = tensors_[static_cast<size_t>(touch.tensor)];
  const TouchChain::Touch& ways = tensor.chain->touches[touch.level];
  const std::vector<double>& from = tensor.from[touch.level];
  const std::vector<double>& after = tensor.to[touch.level + 1];
  std::vector<double>& before = tensor.to[touch.level];
  for (size_t fact = 0; fact < from.size(); ++fact) {
    double least = kNever;
    const int* next = &ways.next[fact * ways.slots];
    const double* step = &ways.step[fact * ways.slots];
    if (from[fact] < kNever) {
      for (const int slot : touch.open) {
        if (next[slot] < 0) continue;
        const double seconds = step[slot] + touch.price[static_cast<size_t>(slot)] +
                               after[static_cast<size_t>(next[slot])];
        if (seconds < least) least = seconds;
      }
    }
    before[fact] = least;
  }
}

bool Potentials::GoesOn(const OpTouch& touch, bool forward) const {
  const size_t touches = tensors_[static_cast<size_t>(touch.tensor)].chain->touches.size();
  return forward ? touch.level + 1 < touches : touch.level > 0;
}

// Once an op has all that its tensors know, the bound is that of everything else plus the least of
// `own`; so with a choice the bound is higher by what the choice has more than the least.
void Potentials::Exclude(OpNode& op) const {
  constexpr double kRounding = 1e-9;
  if (upper_ == kNever) return;
  const double least = *std::min_element(op.own.begin(), op.own.end());
  if (least == kNever) return;
  const double limit = least + upper_ - before_pass_ + kRounding * upper_;
  for (double& own : op.own) {
    if (own > limit) own = kNever;
  }
}

void Potentials::Update(OpNode& op, bool forward) {
  marginals_.resize(std::max(marginals_.size(), op.touches.size()));
  int parts = 0;
  for (size_t t = 0; t < op.touches.size(); ++t) {
    const OpTouch& touch = op.touches[t];
    Collect(touch, marginals_[t]);
    for (size_t c = 0; c < op.own.size(); ++c) {
      op.own[c] += marginals_[t][static_cast<size_t>((*touch.slots)[c])];
    }
    parts += GoesOn(touch, forward) ? 1 : 0;
  }
  Exclude(op);
  std::vector<double> given;
  for (size_t t = 0; t < op.touches.size(); ++t) {
    OpTouch& touch = op.touches[t];
    given.assign(touch.price.size(), kNever);
    for (size_t c = 0; c < op.own.size(); ++c) {
      double& least = given[static_cast<size_t>((*touch.slots)[c])];
      least = std::min(least, op.own[c]);
    }
    std::erase_if(touch.open, [&](int slot) { return given[static_cast<size_t>(slot)] == kNever; });
    const double part = GoesOn(touch, forward) ? 1.0 / parts-- : 0;
    for (const int slot : touch.open) {
      const auto at = static_cast<size_t>(slot);
      given[at] *= part;
      touch.price[at] += given[at] - marginals_[t][at];
    }
    for (size_t c = 0; c < op.own.size(); ++c) {
      if (op.own[c] < kNever) op.own[c] -= given[static_cast<size_t>((*touch.slots)[c])];
    }
    forward ? CarryForward(touch) : CarryBack(touch);
  }
}

bool Potentials::Improve(const Effort& effort) {
  upper_ = effort.upper;
  for (const OpNode& op : ops_) {
    for (const OpTouch& touch : op.touches) CarryForward(touch);
  }
  for (int pass = 0; pass < effort.passes; ++pass) {
    const double before = before_pass_ = bound();
    for (size_t k = 0; k < ops_.size(); ++k) Update(ops_[k], /*forward=*/true);
    // The way back excludes by what the way there has found.
    before_pass_ = std::max(before_pass_, BoundAtEnd());
    for (size_t k = ops_.size(); k-- > 0;) Update(ops_[k], /*forward=*/false);
    SumUp();
    if (bound() >= upper_ || bound() - before < effort.worthwhile * std::abs(bound())) {
      return false;
    }
  }
  return true;
}

double Potentials::ConstantOfBytes() const {
  double constant = 0;
  for (size_t kind = 0; kind < byte_prices_.size(); ++kind) {
    constant -= byte_prices_[kind] * limits_->room()[kind];
  }
  return constant;
}

// The bound by what tensors cost up to their last touches.
double Potentials::BoundAtEnd() const {
  double sum = ConstantOfBytes();
  for (const TensorNode& tensor : tensors_) {
    if (tensor.chain->touches.empty()) continue;
    sum += *std::min_element(tensor.from.back().begin(), tensor.from.back().end());
  }
  for (const OpNode& op : ops_) sum += *std::min_element(op.own.begin(), op.own.end());
  return sum;
}

void Potentials::SumUp() {
  double unseen = 0;  // of tensors
  for (const TensorNode& tensor : tensors_) {
    if (!tensor.chain->touches.empty()) unseen += tensor.to[0][0];
  }
  std::vector<double> own;
  for (const OpNode& op : ops_) {
    own.push_back(*std::min_element(op.own.begin(), op.own.end()));
  }
  const double constant = ConstantOfBytes();
  double ops = std::accumulate(own.begin(), own.end(), constant);
  rest_.clear();
  looked_up_.assign(levels_.size(), {});
  if (ops + unseen == kNever) {  // everything is excluded
    rest_.assign(steps_.size() + 1, upper_);
    return;
  }
  for (size_t step = 0; step < steps_.size(); ++step) {
    rest_.push_back(ops + unseen);
    for (size_t k = begins_[step]; k < begins_[step + 1]; ++k) {
      ops -= own[k];
      for (const OpTouch& touch : ops_[k].touches) {
        if (touch.level == 0) unseen -= tensors_[static_cast<size_t>(touch.tensor)].to[0][0];
      }
    }
  }
  rest_.push_back(constant);
}

void Potentials::SetBytePrices(const std::vector<double>& prices) {
  for (OpNode& op : ops_) {
    for (size_t c = 0; c < op.own.size(); ++c) {
      const std::vector<double>& bytes = limits_->BytesOf(op.number, c);
      for (size_t kind = 0; kind < bytes.size(); ++kind) {
        op.own[c] += (prices[kind] - byte_prices_[kind]) * bytes[kind];
      }
    }
  }
  byte_prices_ = prices;
  SumUp();
}

std::vector<double> Potentials::FavouriteBytes() const {
  std::vector<double> sum(byte_prices_.size(), 0);
  for (const OpNode& op : ops_) {
    const auto best = std::min_element(op.own.begin(), op.own.end()) - op.own.begin();
    const std::vector<double>& bytes = limits_->BytesOf(op.number, static_cast<size_t>(best));
    for (size_t kind = 0; kind < bytes.size(); ++kind) sum[kind] += bytes[kind];
  }
  return sum;
}

double Potentials::Of(size_t k, size_t place, FactId fact) {
  if (looked_up_[k].empty()) looked_up_[k].resize(levels_[k].size());
  std::vector<double>& known = looked_up_[k][place];
  if (fact >= known.size()) known.resize(fact + size_t{1}, -kNever);
  if (known[fact] == -kNever) {
    const int id = steps_[k].live[place];
    const TensorNode& tensor = tensors_[static_cast<size_t>(id)];
    const size_t level = levels_[k][place];
    const int number = tensor.chain->NumberOf(level, problem_.facts(id), fact);
    known[fact] = tensor.to[level][static_cast<size_t>(number)];
  }
  return known[fact];
}

double Potentials::OfBytes(const std::vector<double>& bytes) const {
  double seconds = 0;
  for (size_t kind = 0; kind < bytes.size(); ++kind) seconds += byte_prices_[kind] * bytes[kind];
  return seconds;
}

Restriction Potentials::Open() const {
  Restriction open;
  open.choices.resize(problem_.ops().size());
  for (const OpNode& op : ops_) {
    for (size_t c = 0; c < op.own.size(); ++c) {
      if (op.own[c] == kNever) continue;
      open.choices[static_cast<size_t>(op.number)].push_back(static_cast<int>(c));
    }
  }
  return open;
}

}  // namespace heddle
