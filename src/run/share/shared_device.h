// SharedDevice: what a rank of a job does differently where it shares its device: it takes turns,
// its collectives queue for the network, its computes last their modelled time.
//
//   SharedDevice shared(seat, real_communicator);
//   TrainRank(training, rank, shared.communicator(), …, {&shared.turns(), …});
//   WriteNotes(shared.notes());
//
// Of the network only collectives queue. They are performed one after the other by a thread of this
// rank, each once its turn's place is first in line, and in modelled time from the moment at which
// the last member came.
#pragma once

#include <functional>
#include <memory>

#include "run/communicator.h"
#include "run/device_turns.h"
#include "run/executor.h"
#include "run/share/seat.h"

namespace heddle {

class SharedDevice {
 public:
  SharedDevice(const Seat& seat, Communicator& inner);
  ~SharedDevice();
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;

  DeviceTurns& turns();
  Communicator& communicator();
  std::unique_ptr<Executor> Wrap(Executor& executor);
  // REQUIRES: the run is over.
  RankNotes notes() const;

 private:
  class Turns;
  class Network;
  class PacedExecutor;
  struct Common;

  std::unique_ptr<Common> common_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Turns> turns_;
};

}  // namespace heddle
