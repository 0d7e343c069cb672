#include "plan/order/orders.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace heddle {

std::vector<WorkOrder> GpipeOrders(int stages, int microbatches) {
  WorkOrder order;
  for (int m = 0; m < microbatches; ++m) order.push_back({WorkKind::kForward, 0, m});
  // Last in, first out: the activations made last are used first.
  for (int m = microbatches; m-- > 0;) order.push_back({WorkKind::kBackward, 0, m});
  return std::vector<WorkOrder>(static_cast<size_t>(stages), order);
}

namespace {

// `warm_up` forwards, then one forward and one backward in turn, then the remaining backwards.
WorkOrder Alternate(const WorkOrder& forwards, const WorkOrder& backwards, size_t warm_up) {
  WorkOrder order(forwards.begin(), forwards.begin() + static_cast<ptrdiff_t>(warm_up));
  for (size_t k = warm_up; k < forwards.size(); ++k) {
    order.push_back(forwards[k]);
    order.push_back(backwards[k - warm_up]);
  }
  order.insert(order.end(), backwards.end() - static_cast<ptrdiff_t>(warm_up), backwards.end());
  return order;
}

}  // namespace

std::vector<WorkOrder> WarmUpOrders(const std::vector<int>& in_flight, int microbatches) {
  WorkOrder forwards, backwards;
  for (int m = 0; m < microbatches; ++m) {
    forwards.push_back({WorkKind::kForward, 0, m});
    backwards.push_back({WorkKind::kBackward, 0, m});
  }
  std::vector<WorkOrder> orders;
  int let_pass = microbatches;
  for (const int wanted : in_flight) {
    HEDDLE_CHECK(wanted >= 1);
    let_pass = std::min(let_pass, wanted);
    orders.push_back(Alternate(forwards, backwards, static_cast<size_t>(let_pass - 1)));
  }
  return orders;
}

std::vector<WorkOrder> OneForwardOneBackward(int stages, int microbatches) {
  std::vector<int> in_flight;
  for (int s = 0; s < stages; ++s) in_flight.push_back(stages - s);
  return WarmUpOrders(in_flight, microbatches);
}

std::vector<int> EagerInFlight(int stages) {
  std::vector<int> in_flight;
  for (int s = 0; s < stages; ++s) in_flight.push_back(2 * (stages - s) - 1);
  return in_flight;
}

std::vector<int> ListInFlight(int stages) {
  std::vector<int> in_flight;
  for (int s = 0; s < stages; ++s) in_flight.push_back(std::max(1, 4 * (stages - 1 - s)));
  return in_flight;
}

std::vector<WorkOrder> InterleavedOrders(int stages, int chunks, int microbatches) {
  HEDDLE_CHECK(microbatches % stages == 0);
  WorkOrder forwards, backwards;
  const int round = stages * chunks;
  for (int k = 0; k < microbatches * chunks; ++k) {
    const int chunk = k % round / stages;
    const int microbatch = k / round * stages + k % stages;
    forwards.push_back({WorkKind::kForward, chunk, microbatch});
    backwards.push_back({WorkKind::kBackward, chunks - 1 - chunk, microbatch});
  }
  std::vector<WorkOrder> orders;
  for (int s = 0; s < stages; ++s) {
    const int warm_up = 2 * (stages - s - 1) + (chunks - 1) * stages;
    orders.push_back(Alternate(forwards, backwards,
                               static_cast<size_t>(std::min(microbatches * chunks, warm_up))));
  }
  return orders;
}

}  // namespace heddle
