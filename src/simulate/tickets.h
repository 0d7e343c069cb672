// Tickets: whose flows move at a node. Those of different jobs go one after the other, in the order
// in which they became ready; a flow has the tickets of all its nodes, or none.
//
//   tickets.Request({id, job, now, {0, 1}});
//   for (const TicketRequest& request : tickets.Serve()) Start(request.id);
//   tickets.Return(request);                            // when it is done; then Serve again
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace heddle {

// A communication that waits for the tickets of its nodes.
struct TicketRequest {
  int32_t id = 0;
  int32_t job = 0;
  double since = 0;  // all its ends have posted it
  std::vector<int32_t> nodes;
};

// One ticket per node. A job that has it may use it for several flows; another job's flow waits,
// and whatever came after that waits behind it.
class Tickets {
 public:
  explicit Tickets(size_t nodes) : owner_(nodes, -1), uses_(nodes, 0) {}

  void Request(TicketRequest request);
  void Return(const TicketRequest& request);
  std::vector<TicketRequest> Serve();  // those that may move now
  void Drop(int32_t job);              // what it waits for

 private:
  std::deque<TicketRequest> waiting_;
  std::vector<int32_t> owner_;  // by node: job
  std::vector<int32_t> uses_;
};

}  // namespace heddle
