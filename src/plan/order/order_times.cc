#include "plan/order/order_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "plan/order/pipe_run.h"

namespace heddle {
namespace {

// Goes down the given lists.
class InOrder : public PipeRun::Chooser {
 public:
  InOrder(const PipeShape& shape, const std::vector<WorkOrder>& orders)
      : orders_(orders), places_(shape.PlacesByStage()), starts_(orders.size()) {
    for (size_t s = 0; s < orders.size(); ++s) {
      for (const WorkItem& item : orders[s]) {
        HEDDLE_CHECK(item.chunk >= 0 && static_cast<size_t>(item.chunk) < places_[s].size());
        HEDDLE_CHECK(item.microbatch >= 0 && item.microbatch < shape.microbatches);
      }
      starts_[s].reserve(orders[s].size());
    }
  }

  std::optional<PlacedWork> Next(const PipeRun& run, int stage) override {
    const size_t at = starts_[stage].size();
    if (at == orders_[stage].size()) return std::nullopt;
    const WorkItem& item = orders_[stage][at];
    const PlacedWork work{item.kind, places_[stage][item.chunk], item.microbatch};
    if (!run.Ready(work)) return std::nullopt;
    starts_[stage].push_back(run.now());
    return work;
  }

  // The first item that each stage never got to, or "" when all ran to their end.
  std::string Stuck() const {
    std::string text;
    for (size_t s = 0; s < orders_.size(); ++s) {
      const size_t at = starts_[s].size();
      if (at == orders_[s].size()) continue;
      const WorkItem& item = orders_[s][at];
      text += fmt::format("{}stage {} at {}{}.{}", text.empty() ? "" : ", ", s,
                          static_cast<char>(item.kind), item.microbatch, item.chunk);
    }
    return text;
  }

  std::vector<std::vector<double>> TakeStarts() { return std::move(starts_); }

 private:
  const std::vector<WorkOrder>& orders_;
  std::vector<std::vector<int>> places_;
  std::vector<std::vector<double>> starts_;
};

}  // namespace

double OrderTimes::Of(OrderMeasure measure) const {
  double longest = 0;
  for (size_t s = 0; s < ends.size(); ++s) {
    longest = std::max(longest, OfStage(measure, static_cast<int>(s)));
  }
  return longest;
}

Result<OrderTimes> TimeOrders(const PipeShape& shape, const std::vector<WorkOrder>& orders) {
  CheckShape(shape);
  HEDDLE_CHECK(orders.size() == static_cast<size_t>(shape.stages));
  InOrder chooser(shape, orders);
  PipeRun run(shape);
  run.Run(chooser);
  if (const std::string stuck = chooser.Stuck(); !stuck.empty()) {
    return BadInput("orders", "the stages wait for each other: " + stuck,
                    "each forward needs that of the layers before, each backward that of those "
                    "after");
  }
  OrderTimes times;
  times.starts = chooser.TakeStarts();
  for (int s = 0; s < shape.stages; ++s) {
    times.peaks.push_back(run.peak(s));
    times.ends.push_back(run.last_end(s));
    times.spans.push_back(run.last_end(s) - run.first_start(s));
  }
  return times;
}

bool FitsMemory(const PipeShape& shape, const OrderTimes& times) {
  for (int s = 0; s < shape.stages; ++s) {
    if (!FitsLimit(times.peaks[s], shape.limit(s))) return false;
  }
  return true;
}

}  // namespace heddle
