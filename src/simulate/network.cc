#include "simulate/network.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <queue>
#include <unordered_map>

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Times with a payload, earliest first, then in order of insertion.
struct Alarm {
  double time;
  uint64_t order;
  int32_t id;
  uint32_t version;
  bool operator>(const Alarm& other) const {
    return time > other.time || (time == other.time && order > other.order);
  }
};
using AlarmQueue = std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>>;

class SharedNetwork final : public Network {
 public:
  explicit SharedNetwork(std::vector<double> bandwidths)
      : bandwidths_(std::move(bandwidths)), on_wire_(bandwidths_.size()) {}

  void Start(int32_t id, const FlowSpec& spec, double now) override {
    if (static_cast<size_t>(id) >= flows_.size()) flows_.resize(static_cast<size_t>(id) + 1);
    Flow& flow = flows_[static_cast<size_t>(id)];
    flow = Flow{spec, 0, spec.work, now, flow.version + 1};
    if (spec.stream >= 0) streams_[spec.stream].push_back(id);
    if (spec.latency > 0) {
      Push(now + spec.latency, id, flow.version);
    } else {
      Join(id, now);
    }
  }

  double NextTime() const override {
    while (!alarms_.empty() && Stale(alarms_.top())) alarms_.pop();
    return alarms_.empty() ? kInfinity : alarms_.top().time;
  }

  void Advance(double now, std::vector<int32_t>& done) override {
    while (NextTime() <= now) {
      const Alarm alarm = alarms_.top();
      alarms_.pop();
      Flow& flow = flows_[static_cast<size_t>(alarm.id)];
      if (!flow.moving) {
        Join(alarm.id, now);
      } else {
        done.push_back(alarm.id);
        Leave(alarm.id, now);
      }
    }
  }

 private:
  struct Flow {
    FlowSpec spec;
    double rate = 0;
    double left = 0;  // work, at time `since`
    double since = 0;
    uint32_t version = 0;  // of its alarm; older alarms are stale
    bool ready = false;    // its latency is over
    bool moving = false;
    uint64_t mark = 0;  // of the last traversal that saw it
  };

  bool Stale(const Alarm& alarm) const {
    return flows_[static_cast<size_t>(alarm.id)].version != alarm.version;
  }

  void Push(double time, int32_t id, uint32_t version) {
    alarms_.push({time, order_++, id, version});
  }

  // Moves it, or leaves it in its stream behind those that came earlier.
  void Join(int32_t id, double now) {
    Flow& flow = flows_[static_cast<size_t>(id)];
    flow.ready = true;
    if (flow.spec.stream < 0 || streams_[flow.spec.stream].front() == id) Move(id, now);
  }

  void Move(int32_t id, double now) {
    Flow& flow = flows_[static_cast<size_t>(id)];
    flow.moving = true;
    flow.since = now;
    for (const FlowLoad& load : *flow.spec.loads) {
      on_wire_[static_cast<size_t>(load.wire)].push_back(id);
    }
    Share(id, now);
  }

  void Leave(int32_t id, double now) {
    Flow& flow = flows_[static_cast<size_t>(id)];
    ++flow.version;
    flow.moving = false;
    for (const FlowLoad& load : *flow.spec.loads) {
      auto& wire = on_wire_[static_cast<size_t>(load.wire)];
      wire.erase(std::find(wire.begin(), wire.end(), id));
    }
    // Those it shared a wire with, and through them others, speed up; each component once.
    ++traversal_;
    for (const FlowLoad& load : *flow.spec.loads) {
      for (const int32_t other : on_wire_[static_cast<size_t>(load.wire)]) {
        if (flows_[static_cast<size_t>(other)].mark != traversal_) ShareComponent(other, now);
      }
    }
    if (flow.spec.stream >= 0) MoveNext(streams_[flow.spec.stream], now);
  }

  void MoveNext(std::deque<int32_t>& stream, double now) {
    stream.pop_front();
    if (!stream.empty() && flows_[static_cast<size_t>(stream.front())].ready) {
      Move(stream.front(), now);
    }
  }

  void Share(int32_t id, double now) {
    ++traversal_;
    ShareComponent(id, now);
  }

  // New rates for all flows that compete with this one, directly or through others.
  void ShareComponent(int32_t first, double now) {
    component_.clear();
    component_.push_back(first);
    flows_[static_cast<size_t>(first)].mark = traversal_;
    for (size_t k = 0; k < component_.size(); ++k) {
      for (const FlowLoad& load : *flows_[static_cast<size_t>(component_[k])].spec.loads) {
        for (const int32_t other : on_wire_[static_cast<size_t>(load.wire)]) {
          Flow& neighbour = flows_[static_cast<size_t>(other)];
          if (neighbour.mark == traversal_) continue;
          neighbour.mark = traversal_;
          component_.push_back(other);
        }
      }
    }
    if (component_.size() == 1) {
      SetRate(first, AloneRate(flows_[static_cast<size_t>(first)].spec), now);
      return;
    }
    fair_.clear();
    for (const int32_t id : component_) {
      const FlowSpec& spec = flows_[static_cast<size_t>(id)].spec;
      fair_.push_back({*spec.loads, spec.cap > 0 ? spec.cap : kInfinity});
    }
    const std::vector<double> rates = FairRates(fair_, bandwidths_);
    const std::vector<int32_t> members = component_;
    for (size_t k = 0; k < members.size(); ++k) SetRate(members[k], rates[k], now);
  }

  double AloneRate(const FlowSpec& spec) const {
    double rate = spec.cap > 0 ? spec.cap : kInfinity;
    for (const FlowLoad& load : *spec.loads) {
      rate = std::min(rate, bandwidths_[static_cast<size_t>(load.wire)] / load.weight);
    }
    return rate;
  }

  void SetRate(int32_t id, double rate, double now) {
    Flow& flow = flows_[static_cast<size_t>(id)];
    flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
    flow.since = now;
    if (rate == flow.rate && rate > 0) return;  // its alarm still holds
    flow.rate = rate;
    ++flow.version;
    const double rest = flow.left == 0 ? 0 : flow.left / rate;
    Push(now + rest, id, flow.version);
  }

  std::vector<double> bandwidths_;
  std::vector<std::vector<int32_t>> on_wire_;
  std::vector<Flow> flows_;
  std::unordered_map<int32_t, std::deque<int32_t>> streams_;  // flows that move or wait
  mutable AlarmQueue alarms_;
  uint64_t order_ = 0;
  uint64_t traversal_ = 0;
  std::vector<int32_t> component_;
  std::vector<FairFlow> fair_;
};

// One flow at a time on every resource it needs; first come, first served.
class QueuedNetwork : public Network {
 public:
  explicit QueuedNetwork(size_t resources) : busy_(resources, false) {}

  void Start(int32_t id, const FlowSpec& spec, double now) override {
    waiting_.push_back({id, spec});
    Serve(now);
  }

  double NextTime() const override { return alarms_.empty() ? kInfinity : alarms_.top().time; }

  void Advance(double now, std::vector<int32_t>& done) override {
    while (!alarms_.empty() && alarms_.top().time <= now) {
      const int32_t id = alarms_.top().id;
      alarms_.pop();
      for (const int32_t resource : held_[static_cast<size_t>(id)]) {
        busy_[static_cast<size_t>(resource)] = false;
      }
      done.push_back(id);
    }
    Serve(now);
  }

 protected:
  virtual void ResourcesOf(const FlowSpec& spec, std::vector<int32_t>& resources) const = 0;

 private:
  struct Waiting {
    int32_t id;
    FlowSpec spec;
  };

  void Serve(double now) {
    std::vector<bool> reserved;  // by those that wait and came earlier
    std::deque<Waiting> still;
    for (Waiting& waiting : waiting_) {
      std::vector<int32_t> resources;
      ResourcesOf(waiting.spec, resources);
      if (reserved.empty()) reserved = busy_;
      const bool blocked = std::any_of(resources.begin(), resources.end(),
                                       [&](int32_t r) { return reserved[static_cast<size_t>(r)]; });
      for (const int32_t r : resources) reserved[static_cast<size_t>(r)] = true;
      if (blocked) {
        still.push_back(std::move(waiting));
        continue;
      }
      for (const int32_t r : resources) busy_[static_cast<size_t>(r)] = true;
      if (static_cast<size_t>(waiting.id) >= held_.size()) {
        held_.resize(static_cast<size_t>(waiting.id) + 1);
      }
      held_[static_cast<size_t>(waiting.id)] = std::move(resources);
      alarms_.push({now + waiting.spec.seconds, order_++, waiting.id, 0});
    }
    waiting_ = std::move(still);
  }

  std::vector<bool> busy_;
  std::deque<Waiting> waiting_;
  std::vector<std::vector<int32_t>> held_;
  AlarmQueue alarms_;
  uint64_t order_ = 0;
};

class ExclusiveNetwork final : public QueuedNetwork {
  using QueuedNetwork::QueuedNetwork;
  void ResourcesOf(const FlowSpec& spec, std::vector<int32_t>& resources) const override {
    for (const FlowLoad& load : *spec.loads) resources.push_back(load.wire);
  }
};

class ChannelNetwork final : public QueuedNetwork {
  using QueuedNetwork::QueuedNetwork;
  void ResourcesOf(const FlowSpec& spec, std::vector<int32_t>& resources) const override {
    if (spec.channel >= 0) resources.push_back(spec.channel);
  }
};

}  // namespace

// A flow's rate is that of its busiest wire; on the others it counts in proportion.
FlowSpec FlowOf(const CommCost& cost, std::vector<FlowLoad>& loads) {
  double most = 0;
  for (const WireLoad& load : cost.loads) most = std::max(most, load.bytes);
  for (const WireLoad& load : cost.loads) {
    if (load.bytes > 0) loads.push_back({load.wire.value, load.bytes / most});
  }
  const double moving = (cost.seconds - cost.latency).value;
  FlowSpec spec;
  spec.work = moving > 0 ? most : 0;
  spec.latency = cost.latency.value;
  spec.seconds = cost.seconds.value;
  spec.cap = moving > 0 ? most / moving : 0;
  spec.loads = &loads;
  return spec;
}

std::vector<double> WireBandwidths(const Cluster& cluster) {
  std::vector<double> bandwidths;
  for (const Wire& wire : cluster.wires()) bandwidths.push_back(wire.bandwidth.value);
  return bandwidths;
}

std::unique_ptr<Network> MakeNetwork(LinkModel model, std::vector<double> bandwidths,
                                     size_t channels) {
  switch (model) {
    case LinkModel::kExclusive:
      return std::make_unique<ExclusiveNetwork>(bandwidths.size());
    case LinkModel::kChannels:
      return std::make_unique<ChannelNetwork>(channels);
    case LinkModel::kShared:
      break;
  }
  return std::make_unique<SharedNetwork>(std::move(bandwidths));
}

}  // namespace heddle
