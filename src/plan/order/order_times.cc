#include "plan/order/order_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "plan/order/order_clock.h"

namespace heddle {
namespace {

// The first item that each stage never got to.
std::string Stuck(const OrderClock& clock, const std::vector<WorkOrder>& orders) {
  std::string text;
  for (size_t s = 0; s < orders.size(); ++s) {
    const size_t at = clock.done(static_cast<int>(s));
    if (at == orders[s].size()) continue;
    const WorkItem& item = orders[s][at];
    text += fmt::format("{}stage {} at {}{}.{}", text.empty() ? "" : ", ", s,
                        static_cast<char>(item.kind), item.microbatch, item.chunk);
  }
  return text;
}

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
  const std::vector<std::vector<int>> places = shape.PlacesByStage();
  for (size_t s = 0; s < orders.size(); ++s) {
    for (const WorkItem& item : orders[s]) {
      HEDDLE_CHECK(item.chunk >= 0 && static_cast<size_t>(item.chunk) < places[s].size());
      HEDDLE_CHECK(item.microbatch >= 0 && item.microbatch < shape.microbatches);
    }
  }
  OrderClock clock(shape);
  if (!clock.Run(orders)) {
    return BadInput("orders", "the stages wait for each other: " + Stuck(clock, orders),
                    "each forward needs that of the layers before, each backward that of those "
                    "after");
  }
  OrderTimes times;
  times.starts = clock.starts();
  for (int s = 0; s < shape.stages; ++s) {
    times.peaks.push_back(clock.peak(s));
    times.ends.push_back(clock.last_end(s));
    times.spans.push_back(clock.last_end(s) - clock.first_start(s));
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
