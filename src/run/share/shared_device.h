// SharedDevice: what a rank of a job does differently where it shares its device: it takes turns,
// its communication waits for the network, its computes last their modelled time.
//
//   SharedDevice shared(seat, real_communicator);
//   TrainRank(training, rank, shared.communicator(), …, {&shared.turns(), …});
//   WriteNotes(shared.notes());
//
// Its communication goes by the flow desk if it has one (desk_communicator.h), and its collectives
// by the order of turns if there is one (placed_communicator.h).
#pragma once

#include <memory>

#include "run/communicator.h"
#include "run/device_turns.h"
#include "run/executor.h"
#include "run/share/desk_communicator.h"
#include "run/share/placed_communicator.h"
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
  class PacedExecutor;
  struct Common;

  void Arrived(int64_t end);

  std::unique_ptr<Common> common_;
  std::unique_ptr<DeskCommunicator> desk_;      // null: none
  std::unique_ptr<PlacedCommunicator> placed_;  // null: no order
  std::unique_ptr<Turns> turns_;
  Communicator& communicator_;  // one of them, or the real one
};

}  // namespace heddle
