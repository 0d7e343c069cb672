#include "plan/few_microbatches.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/check.h"

namespace heddle {
namespace {

// What one more microbatch adds.
struct MicrobatchStep {
  Seconds seconds;
  std::vector<Seconds> busy;  // of that, by device
};

// The events of one lane in one microbatch.
struct Window {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};

class Comparison {
 public:
  Comparison(const Program& program, const Simulation& simulation)
      : p_(program), microbatches_(std::ssize(program.microbatch_rows)), lanes_(2 * DeviceCount()) {
    tolerance_ = 1e-11 * simulation.iteration.value;
    for (const TimelineEvent& event : simulation.timeline.events) {
      if (event.repetition + 1 != simulation.repetitions) continue;
      lanes_[static_cast<size_t>(event.lane)].push_back(&event);
    }
  }

  std::optional<MicrobatchStep> Run() {
    MicrobatchStep step;
    for (size_t d = 0; d < DeviceCount(); ++d) {
      const auto computes = ComputeWindows(d);
      const auto exchanges = ExchangeWindows(d);
      if (!computes || !exchanges) return std::nullopt;
      if (!Shifted(2 * d, *computes) || !Shifted(2 * d + 1, *exchanges)) return std::nullopt;
      step.busy.push_back(Length(2 * d, (*computes)[1]));
    }
    if (!shift_) return std::nullopt;
    step.seconds = Seconds{*shift_};
    return step;
  }

 private:
  using Windows = std::array<Window, 2>;  // of the two microbatches before the last

  size_t DeviceCount() const { return p_.devices.size(); }

  // A microbatch begins with the first compute of its own.
  std::optional<Windows> ComputeWindows(size_t device) const {
    const auto& events = lanes_[2 * device];
    const auto first_of = [&](int64_t microbatch) {
      const auto found = std::find_if(events.begin(), events.end(), [&](const TimelineEvent* one) {
        return one->microbatch == microbatch && one->kind != EventKind::kCollective;
      });
      return static_cast<size_t>(found - events.begin());
    };
    return WindowsBetween(first_of(microbatches_ - 3), first_of(microbatches_ - 2),
                          first_of(microbatches_ - 1), events.size());
  }

  // As many exchanges as are posted before it begins.
  std::optional<Windows> ExchangeWindows(size_t device) const {
    const std::vector<Instruction>& list = p_.devices[device].list(Section::kBody);
    std::vector<size_t> before(static_cast<size_t>(microbatches_), 0);
    size_t count = 0;
    int64_t next = 0;
    for (const Instruction& in : list) {
      if (in.code == OpCode::kCollective) ++count;
      const bool begins = in.code == OpCode::kCompute && in.microbatch.present() &&
                          next < microbatches_ && in.microbatch.value(0) == next;
      if (begins) before[static_cast<size_t>(next++)] = count;
    }
    if (next < microbatches_) return std::nullopt;
    const auto at = [&](int64_t m) { return before[static_cast<size_t>(m)]; };
    return WindowsBetween(at(microbatches_ - 3), at(microbatches_ - 2), at(microbatches_ - 1),
                          lanes_[2 * device + 1].size());
  }

  static std::optional<Windows> WindowsBetween(size_t a, size_t b, size_t c, size_t most) {
    if (a > b || b > c || c > most || b - a != c - b) return std::nullopt;
    return Windows{Window{a, b}, Window{b, c}};
  }

  // The same events in both, all later by the same.
  bool Shifted(size_t lane, const Windows& windows) {
    const auto& events = lanes_[lane];
    for (size_t k = 0; k < windows[0].size(); ++k) {
      const TimelineEvent& a = *events[windows[0].begin + k];
      const TimelineEvent& b = *events[windows[1].begin + k];
      if (a.kind != b.kind || a.label != b.label) return false;
      if (!shift_) shift_ = (b.start - a.start).value;
      for (const Seconds shift : {b.start - a.start, b.end - a.end}) {
        if (std::abs(shift.value - *shift_) > tolerance_) return false;
      }
    }
    return true;
  }

  Seconds Length(size_t lane, const Window& window) const {
    Seconds length;
    for (size_t k = window.begin; k < window.end; ++k) {
      length += lanes_[lane][k]->end - lanes_[lane][k]->start;
    }
    return length;
  }

  const Program& p_;
  int64_t microbatches_;
  std::vector<std::vector<const TimelineEvent*>> lanes_;  // of the last repetition, by start
  double tolerance_ = 0;
  std::optional<double> shift_;
};

}  // namespace

Plan WithMicrobatches(const Plan& plan, int64_t microbatches) {
  Plan few = plan;
  few.request.batch = plan.request.batch / plan.microbatches * microbatches;
  few.microbatches = microbatches;
  return few;
}

bool AddMicrobatches(const Program& program, int64_t more, Simulation& simulation) {
  HEDDLE_CHECK(program.microbatch_rows.size() >= 4);
  const std::optional<MicrobatchStep> step = Comparison(program, simulation).Run();
  simulation.timeline = {};
  if (!step) return false;
  const auto times = static_cast<double>(more);
  simulation.iteration += step->seconds * times;
  simulation.makespan += step->seconds * times;
  for (size_t d = 0; d < step->busy.size(); ++d) {
    DeviceUse& use = simulation.devices[d];
    use.busy += step->busy[d] * times;
    use.idle = std::max(Seconds{0}, simulation.iteration - use.busy);
  }
  return true;
}

}  // namespace heddle
