// A Communicator over c10d process groups (Gloo): devices as processes, on one host or several.
//
//   HEDDLE_ASSIGN(auto communicator, ConnectC10d({.store = store, .device = 2, …}));
//
// Messages go through one group of all devices. Each group of the Program has a process group and a
// thread of its own, so that collectives of different groups do not wait for each other. An
// all-reduce is a reduce-scatter with sums in rank order and an all-gather, at the bytes of a ring;
// these and the all-to-all go in rounds of messages, since Gloo has no uneven ones.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "run/communicator.h"
#include "run/meet/store_client.h"

namespace heddle {

struct C10dOptions {
  std::shared_ptr<StoreClient> store;           // where the devices find each other
  std::string interface_address = "127.0.0.1";  // this host's: Gloo listens there and nowhere else
  int32_t device = 0;                           // this one's number
  int32_t devices = 1;
  std::vector<std::vector<int32_t>> groups;    // devices in rank order, by group number
  std::chrono::milliseconds timeout{300'000};  // for connecting
  bool native_all_reduce = false;  // Gloo's own, whose bits depend on the number of devices
};

// Blocks until all devices have come, or the time is over. From then on Gloo listens nowhere.
Result<std::unique_ptr<Communicator>> ConnectC10d(const C10dOptions& options);

}  // namespace heddle
