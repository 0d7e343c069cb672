#include "plan/pipeline/layer_table.h"

#include <algorithm>
#include <bit>

#include "plan/two_threads.h"
#include "program/lower/chunk_memory.h"

namespace heddle {

double LayerTable::Memory::Peak(double rows, double microbatches, bool recompute) const {
  const double at_work = (in_flight + extra) * rows + extra_fixed;
  const double kept = (recompute ? input : in_flight) * rows + statistics;
  return fixed + kept * std::max(0.0, microbatches - 1) + at_work + boundary * rows;
}

LayerTable::LayerTable(const Planning& planning)
    : planning_(planning), layers_(planning.chain.size()), blank_(planning.Blank("pipeline", "")) {
  const LayerChain& chain = planning.chain;
  parameters_ = {0};
  std::map<int32_t, std::vector<int>> users;
  for (const ChainLayer& layer : chain.layers) {
    double bytes = 0;
    for (const int32_t p : layer.parameters) {
      const Parameter& parameter = planning.graph.parameters()[static_cast<size_t>(p)];
      bytes += static_cast<double>(planning.graph.tensor(parameter.gradient).bytes().value);
      users[p].push_back(static_cast<int>(parameters_.size()) - 1);
    }
    parameters_.push_back(parameters_.back() + bytes);
  }
  for (const auto& [p, layers] : users) {
    if (layers.size() < 2) continue;
    const Parameter& parameter = planning.graph.parameters()[static_cast<size_t>(p)];
    tied_.push_back(
        {layers, static_cast<double>(planning.graph.tensor(parameter.gradient).bytes().value)});
  }
  forward_bytes_.assign(static_cast<size_t>(layers_) + 1, 0);
  backward_bytes_ = forward_bytes_;
  for (size_t l = 0; l + 1 < chain.layers.size(); ++l) {
    forward_bytes_[l + 1] = static_cast<double>(chain.cuts[l].forward_bytes.value);
    backward_bytes_[l + 1] = static_cast<double>(chain.cuts[l].backward_bytes.value);
  }
  SumMemory();
  const Times& whole = TimesFor(planning.request.batch);
  for (size_t type = 0; type < planning.cluster->types().size(); ++type) {
    speeds_.push_back(static_cast<double>(planning.request.batch) /
                      whole.Of(static_cast<int>(type), 0, layers_).whole());
  }
}

const LayerTable::Times& LayerTable::TimesFor(int64_t rows) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = times_.find(rows); found != times_.end()) return *found->second;
  }
  auto made = std::make_unique<Times>(MakeTimes(rows));
  const std::lock_guard lock(mutex_);
  return *times_.try_emplace(rows, std::move(made)).first->second;
}

const LayerSeconds& LayerTable::SecondsFor(int64_t rows) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = seconds_.find(rows); found != seconds_.end()) return *found->second;
  }
  auto made = std::make_unique<LayerSeconds>(planning_, rows);
  const std::lock_guard lock(mutex_);
  return *seconds_.try_emplace(rows, std::move(made)).first->second;
}

LayerTable::Times LayerTable::MakeTimes(int64_t rows) const {
  const OpCost cost = planning_.cost();
  const Graph& graph = planning_.graph;
  Times times;
  for (const DeviceTypeSpec& type : planning_.cluster->types()) {
    std::vector<Work> sums(1);
    for (const ChainLayer& layer : planning_.chain.layers) {
      const auto seconds = [&](const std::vector<OpId>& ops) {
        double sum = 0;
        for (const OpId id : ops) sum += cost.RowsSeconds(graph.op(id), rows, type).value;
        return sum;
      };
      const Work& last = sums.back();
      sums.push_back({last.forward + seconds(layer.forward),
                      last.input + seconds(layer.backward_input),
                      last.weight + seconds(layer.backward_weight)});
    }
    times.sums_.push_back(std::move(sums));
  }
  return times;
}

// Tensors between two layers of a run count once: what a pair needs less than its members apart is
// taken off.
void LayerTable::SumMemory() {
  const LayerChain& chain = planning_.chain;
  const auto of = [&](int first, int last) {
    return heddle::MemoryOf(planning_.graph, chain, {.layers = {first, last}});
  };
  const auto bytes = [](Bytes value) { return static_cast<double>(value.value); };
  // By two threads: the layers alone, and each with the one before.
  std::vector<ChunkMemory> alone(static_cast<size_t>(layers_)), pairs = alone;
  ForEachOnTwoThreads(alone.size(), [&](size_t l) {
    const int layer = static_cast<int>(l);
    alone[l] = of(layer, layer);
    if (l > 0) pairs[l] = of(layer - 1, layer);
  });
  memory_.assign(static_cast<size_t>(layers_) + 1, {});
  extremes_.assign(1, std::vector<Memory>(static_cast<size_t>(layers_)));
  double previous = 0;
  for (int l = 0; l < layers_; ++l) {
    const auto at = static_cast<size_t>(l);
    const ChunkMemory& one = alone[at];
    Memory& extreme = extremes_[0][at];
    for (const ChunkMemory::Line& line : one.at_work) {
      extreme.extra = std::max(extreme.extra, bytes(line.per_sample) - bytes(one.in_flight));
      extreme.extra_fixed = std::max(extreme.extra_fixed, bytes(line.fixed));
    }
    Memory& sum = memory_[at + 1] = memory_[at];
    sum.fixed += bytes(one.weights) + bytes(one.gradients) + bytes(one.states);
    sum.statistics += bytes(one.statistics);
    sum.for_weight += bytes(ReadByWeightPart(planning_.graph, chain, l));
    double shared = 0;
    if (l > 0) shared = previous + bytes(one.in_flight) - bytes(pairs[at].in_flight);
    sum.in_flight += bytes(one.in_flight) - shared;
    sum.extra_fixed = shared;  // of this layer with the one before
    previous = bytes(one.in_flight);
  }
  for (size_t width = 1; 2 * width <= static_cast<size_t>(layers_); width *= 2) {
    const std::vector<Memory>& half = extremes_.back();
    std::vector<Memory> level(static_cast<size_t>(layers_) + 1 - 2 * width);
    for (size_t l = 0; l < level.size(); ++l) {
      level[l].extra = std::max(half[l].extra, half[l + width].extra);
      level[l].extra_fixed = std::max(half[l].extra_fixed, half[l + width].extra_fixed);
    }
    extremes_.push_back(std::move(level));
  }
}

LayerTable::Memory LayerTable::MemoryOf(int first, int end) const {
  const auto from = static_cast<size_t>(first), to = static_cast<size_t>(end);
  Memory memory;
  memory.fixed = memory_[to].fixed - memory_[from].fixed;
  memory.statistics = memory_[to].statistics - memory_[from].statistics;
  memory.for_weight = memory_[to].for_weight - memory_[from].for_weight;
  // The first layer shares nothing with one before it.
  memory.in_flight =
      memory_[to].in_flight - memory_[from].in_flight + memory_[from + 1].extra_fixed;
  const auto level = static_cast<size_t>(std::bit_width(to - from)) - 1;
  const size_t width = size_t{1} << level;
  const Memory& a = extremes_[level][from];
  const Memory& b = extremes_[level][to - width];
  memory.extra = std::max(a.extra, b.extra);
  memory.extra_fixed = std::max(a.extra_fixed, b.extra_fixed);
  memory.input = ForwardBytes(first);
  memory.boundary = ForwardBytes(first) + ForwardBytes(end);
  return memory;
}

}  // namespace heddle
