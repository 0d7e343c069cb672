#include "plan/stage_split.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "base/check.h"
#include "program/plan/spmd_conversion.h"

namespace heddle {
namespace {

bool HasPartial(const Layout& layout) {
  return std::any_of(layout.begin(), layout.end(),
                     [](const ShardState& state) { return state.kind == ShardKind::kPartial; });
}

// What a program does with each op and tensor.
class ProgramIndex {
 public:
  ProgramIndex(const SpmdPlan& plan, const Graph& graph) : rules_(graph.ops().size()) {
    for (const SpmdStep& step : plan.steps) {
      if (step.converts()) {
        conversions_.try_emplace({step.tensor, step.to}, step);
        continue;
      }
      rules_[static_cast<size_t>(step.op.value)] = step.rule;
      const Op& op = graph.op(step.op);
      for (size_t o = 0; o < op.outputs.size(); ++o) {
        sources_.try_emplace(op.outputs[o].tensor, OutputLayout(op, o, step.rule));
      }
    }
  }

  const OpRule& RuleOf(OpId op) const { return rules_[static_cast<size_t>(op.value)]; }
  const Layout& SourceOf(TensorId tensor) const { return sources_.at(tensor); }
  // The step that makes the layout; null: none does.
  const SpmdStep* MakerOf(TensorId tensor, const Layout& layout) const {
    const auto found = conversions_.find({tensor, layout});
    return found == conversions_.end() ? nullptr : &found->second;
  }
  // A conversion that completes the sum, from this layout; null: there is none.
  const SpmdStep* CompletionOf(TensorId tensor, const Layout& from) const {
    for (const auto& [key, step] : conversions_) {
      if (key.first == tensor && step.from == from && !HasPartial(step.to)) return &step;
    }
    return nullptr;
  }

 private:
  std::vector<OpRule> rules_;
  std::map<TensorId, Layout> sources_;
  std::map<std::pair<TensorId, Layout>, SpmdStep> conversions_;
};

struct Chunk {
  size_t stage = 0;
  LayerRun run;
  std::vector<BodyArrival> arrivals;
  std::array<std::vector<SpmdStep>, 2> steps;  // backward, forward
};

class Splitter {
 public:
  Splitter(const Graph& graph, const LayerChain& chain, const std::vector<StageCut>& cuts)
      : g_(graph), chain_(chain), cuts_(cuts) {
    std::map<const SpmdPlan*, std::shared_ptr<const ProgramIndex>> known;
    for (size_t s = 0; s < cuts.size(); ++s) {
      auto& index = known[cuts[s].program];
      if (index == nullptr) index = std::make_shared<ProgramIndex>(*cuts[s].program, graph);
      programs_.push_back(index);
      for (const LayerRun& run : cuts[s].chunks) chunks_.push_back({s, run, {}, {}});
    }
    std::sort(chunks_.begin(), chunks_.end(),
              [](const Chunk& a, const Chunk& b) { return a.run < b.run; });
    stored_.resize(cuts.size());
    updates_.resize(cuts.size());
    there_.resize(cuts.size());
  }

  std::vector<StageBody> Run() {
    Store();
    for (Chunk& chunk : chunks_) {
      for (const bool forward : {true, false}) AddOps(chunk, forward);
    }
    // What a run of layers wants of the one before it may have to be passed on from further away.
    for (size_t k = chunks_.size(); k-- > 1;) GiveAll(chunks_[k - 1], chunks_[k], true);
    for (size_t k = 0; k + 1 < chunks_.size(); ++k) GiveAll(chunks_[k + 1], chunks_[k], false);
    AddUpdates();
    std::vector<StageBody> bodies;
    for (size_t s = 0; s < cuts_.size(); ++s) bodies.push_back(BodyOf(s));
    return bodies;
  }

 private:
  using Facts = std::map<TensorId, std::set<Layout>>;

  void Store() {
    for (size_t s = 0; s < cuts_.size(); ++s) {
      std::set<int32_t> parameters;
      for (const LayerRun& run : cuts_[s].chunks) {
        for (int l = run.first; l <= run.last; ++l) {
          const auto& list = chain_.layers[static_cast<size_t>(l)].parameters;
          parameters.insert(list.begin(), list.end());
        }
      }
      for (const int32_t p : parameters) {
        const SpmdStorage& stored = cuts_[s].program->storage[static_cast<size_t>(p)];
        stored_[s].push_back(stored);
        there_[s][stored.parameter].insert(stored.layout);
        parameters_of_[s].push_back(p);
      }
    }
  }

  const ProgramIndex& ProgramOf(const Chunk& chunk) const { return *programs_[chunk.stage]; }
  bool OnOneStage(TensorId id) const {
    const Role role = g_.tensor(id).role;
    return role == Role::kParameter || role == Role::kState;
  }
  // Weights are the stage's; what flows is the run's.
  Facts& FactsOf(const Chunk& chunk, TensorId id) {
    if (OnOneStage(id)) return there_[chunk.stage];
    return flows_[&chunk];
  }

  void AddOps(Chunk& chunk, bool forward) {
    std::vector<OpId> ops;
    for (int l = chunk.run.first; l <= chunk.run.last; ++l) {
      const ChainLayer& layer = chain_.layers[static_cast<size_t>(l)];
      const auto& list = forward ? layer.forward : layer.backward;
      ops.insert(ops.end(), list.begin(), list.end());
    }
    std::sort(ops.begin(), ops.end());
    for (const OpId id : ops) {
      const Op& op = g_.op(id);
      const OpRule& rule = ProgramOf(chunk).RuleOf(id);
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        Need(chunk, chunk.steps[forward], op.inputs[i].tensor, InputLayout(op, i, rule));
      }
      SpmdStep step;
      step.op = id;
      step.rule = rule;
      chunk.steps[forward].push_back(step);
      for (size_t o = 0; o < op.outputs.size(); ++o) {
        FactsOf(chunk, op.outputs[o].tensor)[op.outputs[o].tensor].insert(
            OutputLayout(op, o, rule));
        if (g_.tensor(op.outputs[o].tensor).role == Role::kWeightGradient) {
          makers_[{chunk.stage, op.outputs[o].tensor}].insert(&chunk);
        }
      }
    }
  }

  // Has the run so far made the tensor itself, or does it come from elsewhere?
  bool IsHere(Chunk& chunk, TensorId id) {
    const Facts& facts = FactsOf(chunk, id);
    const auto found = facts.find(id);
    return found != facts.end() && !found->second.empty();
  }
  bool IsMadeHere(const Chunk& chunk, TensorId id) const {
    if (OnOneStage(id) || g_.tensor(id).role == Role::kWeightGradient) return true;
    const int32_t layer = MakerLayer(id);
    return layer >= chunk.run.first && layer <= chunk.run.last;
  }
  int32_t MakerLayer(TensorId id) const {
    if (maker_layers_.empty()) {
      for (const Op& op : g_.ops()) {
        for (const Operand& output : op.outputs) maker_layers_[output.tensor] = op.layer.value;
      }
    }
    return maker_layers_.at(id);
  }

  // After the steps added to `steps` the run has the tensor in the layout.
  void Need(Chunk& chunk, std::vector<SpmdStep>& steps, TensorId id, const Layout& layout) {
    if (g_.tensor(id).role == Role::kInput) return;
    std::set<Layout>& there = FactsOf(chunk, id)[id];
    if (there.contains(layout)) return;
    const SpmdStep* maker = ProgramOf(chunk).MakerOf(id, layout);
    if (!IsMadeHere(chunk, id)) {
      const bool source = maker == nullptr || layout == ProgramOf(chunk).SourceOf(id);
      const bool completed = maker != nullptr && HasPartial(maker->from) && !HasPartial(layout);
      if (completed || (source && !HasPartial(layout))) {
        there.insert(layout);
        chunk.arrivals.push_back({id, layout});
        return;
      }
      if (source) {  // a partial sum: it arrives complete, and one device keeps it
        Layout whole = layout;
        for (ShardState& state : whole) {
          if (state.kind == ShardKind::kPartial) state = ShardState::Replicated();
        }
        Need(chunk, steps, id, whole);
        Convert(steps, id, whole, layout, CollectiveAlgorithm::kRing);
        FactsOf(chunk, id)[id].insert(layout);
        return;
      }
    }
    if (!LeadsHere(chunk, id, layout)) {
      for (const auto& [from, to] : WayTo(layout, there)) {
        Convert(steps, id, from, to, CollectiveAlgorithm::kRing);
        FactsOf(chunk, id)[id].insert(to);
      }
      return;
    }
    Need(chunk, steps, id, maker->from);
    steps.push_back(*maker);
    FactsOf(chunk, id)[id].insert(layout);
  }

  // Does the program come to the layout from one that is there, or arrives? Of a tied weight's
  // gradient it may begin with what another stage makes.
  bool LeadsHere(Chunk& chunk, TensorId id, Layout layout) {
    if (!IsMadeHere(chunk, id)) return true;
    const std::set<Layout>& there = FactsOf(chunk, id)[id];
    for (std::set<Layout> seen; !there.contains(layout);) {
      const SpmdStep* maker = ProgramOf(chunk).MakerOf(id, layout);
      if (maker == nullptr || !seen.insert(layout).second) return false;
      layout = maker->from;
    }
    return true;
  }

  // The fewest conversions from any of the layouts.
  static std::vector<std::pair<Layout, Layout>> WayTo(const Layout& to,
                                                      const std::set<Layout>& froms) {
    std::map<Layout, Layout> before;
    std::deque<Layout> queue(froms.begin(), froms.end());
    while (!queue.empty() && !before.contains(to)) {
      const Layout at = queue.front();
      queue.pop_front();
      for (const ShardState& outer : {at[0], to[0], ShardState::Replicated()}) {
        for (const ShardState& inner : {at[1], to[1], ShardState::Replicated()}) {
          const Layout next{outer, inner};
          const bool known = froms.contains(next) || before.contains(next);
          if (known || !ConversionOf(at, next)) continue;
          before[next] = at;
          queue.push_back(next);
        }
      }
    }
    HEDDLE_CHECK(before.contains(to));
    std::vector<std::pair<Layout, Layout>> way;
    for (Layout step = to; !froms.contains(step); step = before.at(step)) {
      way.emplace_back(before.at(step), step);
    }
    std::reverse(way.begin(), way.end());
    return way;
  }

  static void Convert(std::vector<SpmdStep>& steps, TensorId id, const Layout& from,
                      const Layout& to, CollectiveAlgorithm algorithm) {
    SpmdStep step;
    step.tensor = id;
    step.from = from;
    step.to = to;
    step.algorithm = algorithm;
    HEDDLE_CHECK(ConversionOf(from, to).has_value());
    steps.push_back(step);
  }

  void GiveAll(Chunk& giver, const Chunk& taker, bool forward) {
    for (const BodyArrival& arrival : taker.arrivals) {
      const bool activation = g_.tensor(arrival.tensor).role == Role::kActivation;
      if (activation == forward) Give(giver, arrival, forward, giver.stage == taker.stage);
    }
  }

  // After this the run has the tensor without partial sums; `exactly` so.
  void Give(Chunk& chunk, const BodyArrival& wanted, bool forward, bool exactly) {
    const TensorId id = wanted.tensor;
    if (!IsHere(chunk, id) && !IsMadeHere(chunk, id)) {  // passed on
      const BodyArrival passed{id, WithRatiosOf(chunk, wanted.layout)};
      FactsOf(chunk, id)[id].insert(passed.layout);
      chunk.arrivals.push_back(passed);
      return;
    }
    std::set<Layout>& there = FactsOf(chunk, id)[id];
    const bool complete = std::any_of(there.begin(), there.end(),
                                      [](const Layout& layout) { return !HasPartial(layout); });
    if (there.contains(wanted.layout) || (complete && !exactly)) return;
    std::vector<SpmdStep> made;
    if (exactly) {
      Need(chunk, made, id, wanted.layout);
    } else {
      Complete(chunk, id, made);
    }
    Insert(chunk.steps[forward], id, made);
  }

  // A layout of another mesh on this one: ratio vectors that this one lacks are its first.
  Layout WithRatiosOf(const Chunk& chunk, Layout layout) const {
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      const auto vectors = std::ssize(cuts_[chunk.stage].program->ratios[axis]);
      if (layout[axis].ratios >= vectors) layout[axis].ratios = 0;
    }
    return layout;
  }

  // As the program would; or, if it never does, one axis after the other, the inner one first.
  void Complete(Chunk& chunk, TensorId id, std::vector<SpmdStep>& made) {
    Layout layout = *FactsOf(chunk, id)[id].begin();
    if (const SpmdStep* step = ProgramOf(chunk).CompletionOf(id, layout)) {
      made.push_back(*step);
      FactsOf(chunk, id)[id].insert(step->to);
      return;
    }
    for (size_t axis = kMeshAxes; axis-- > 0;) {
      if (layout[axis].kind != ShardKind::kPartial) continue;
      const Layout before = layout;
      layout[axis] = ShardState::Replicated();
      Convert(made, id, before, layout, CollectiveAlgorithm::kRing);
      FactsOf(chunk, id)[id].insert(layout);
    }
  }

  // Right after what makes the tensor.
  void Insert(std::vector<SpmdStep>& steps, TensorId id, const std::vector<SpmdStep>& made) const {
    const auto touches = [&](const SpmdStep& step) {
      if (step.converts()) return step.tensor == id;
      const std::vector<Operand>& outputs = g_.op(step.op).outputs;
      return std::any_of(outputs.begin(), outputs.end(),
                         [&](const Operand& output) { return output.tensor == id; });
    };
    const auto last = std::find_if(steps.rbegin(), steps.rend(), touches);
    steps.insert(last.base(), made.begin(), made.end());
  }

  // Sums of gradients in the backward that makes them, where one does, else after all; then the
  // updates.
  void AddUpdates() {
    for (size_t s = 0; s < cuts_.size(); ++s) {
      for (const int32_t p : parameters_of_[s]) {
        const Parameter& parameter = g_.parameters()[static_cast<size_t>(p)];
        const Op& update = g_.op(parameter.update);
        const OpRule& rule = programs_[s]->RuleOf(parameter.update);
        const std::set<Chunk*>& makers = makers_[{s, parameter.gradient}];
        HEDDLE_CHECK(!makers.empty());
        std::vector<SpmdStep> made;
        for (size_t i = 0; i < update.inputs.size(); ++i) {
          if (update.inputs[i].tensor != parameter.gradient) continue;
          Need(**makers.begin(), made, parameter.gradient, InputLayout(update, i, rule));
        }
        if (makers.size() == 1) {
          Insert((*makers.begin())->steps[0], parameter.gradient, made);
        } else {
          updates_[s].insert(updates_[s].end(), made.begin(), made.end());
        }
      }
      for (const int32_t p : parameters_of_[s]) {
        SpmdStep step;
        step.op = g_.parameters()[static_cast<size_t>(p)].update;
        step.rule = programs_[s]->RuleOf(step.op);
        updates_[s].push_back(step);
      }
    }
  }

  StageBody BodyOf(size_t s) {
    StageBody body;
    SpmdPlan& program = body.program;
    program.mesh = cuts_[s].mesh;
    program.ratios = cuts_[s].program->ratios;
    program.converts_each = cuts_[s].program->converts_each;
    program.storage = std::move(stored_[s]);
    for (const LayerRun& run : cuts_[s].chunks) {
      const auto found = std::find_if(chunks_.begin(), chunks_.end(),
                                      [&](const Chunk& chunk) { return chunk.run == run; });
      ChunkSteps& steps = body.shape.chunks.emplace_back();
      steps.arrivals = found->arrivals;
      steps.forward = program.steps.size();
      program.steps.insert(program.steps.end(), found->steps[1].begin(), found->steps[1].end());
      steps.backward = program.steps.size();
      program.steps.insert(program.steps.end(), found->steps[0].begin(), found->steps[0].end());
      steps.end = program.steps.size();
    }
    body.shape.updates = program.steps.size();
    program.steps.insert(program.steps.end(), updates_[s].begin(), updates_[s].end());
    body.shape.again = cuts_[s].again;
    return body;
  }

  const Graph& g_;
  const LayerChain& chain_;
  const std::vector<StageCut>& cuts_;
  std::vector<std::shared_ptr<const ProgramIndex>> programs_;       // by stage
  std::vector<Chunk> chunks_;                                       // along the layers
  std::vector<std::vector<SpmdStorage>> stored_;                    // by stage
  std::vector<std::vector<SpmdStep>> updates_;                      // by stage
  std::map<size_t, std::vector<int32_t>> parameters_of_;            // by stage
  std::vector<Facts> there_;                                        // by stage: of weights
  std::map<const Chunk*, Facts> flows_;                             // by run: of what flows
  std::map<std::pair<size_t, TensorId>, std::set<Chunk*>> makers_;  // of weight gradients
  mutable std::map<TensorId, int32_t> maker_layers_;
};

}  // namespace

std::vector<StageBody> SplitProgram(const Graph& graph, const LayerChain& chain,
                                    const std::vector<StageCut>& cuts) {
  return Splitter(graph, chain, cuts).Run();
}

}  // namespace heddle
