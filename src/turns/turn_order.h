// Turn order: which job gets the devices next. One sequence of jobs for the whole share, grown as
// it is needed; each device walks it and leaves out the jobs it does not have. So every device sees
// the same order, which is what keeps jobs from waiting for each other in a circle.
//
//   rotation   A B C A B C …             the default
//   deficit    A A B A A B …             by fair rates, from modelled seconds (turn_cycle.h)
//   arrival    no sequence: the device goes to whoever asked first (jobs of several turns a step)
//
// Nothing measured enters: measured seconds would differ from device to device.
#pragma once

#include <cstdint>
#include <span>

#include "base/choices.h"

namespace heddle {

enum class TurnOrder : int32_t { kRotation, kDeficit, kArrival };

template <>
struct Choices<TurnOrder> {
  static constexpr Choice<TurnOrder> kTable[] = {
      {TurnOrder::kRotation, "rotation"},
      {TurnOrder::kDeficit, "deficit"},
      {TurnOrder::kArrival, "arrival", "", /*offered=*/false}};
};

// A job as the order sees it.
struct OrderMember {
  bool active = false;
  int64_t left = 0;    // turns that are not in the sequence yet
  double seconds = 1;  // modelled, of the device, in one turn
  double weight = 1;   // share of the device's seconds
  double deficit = 0;  // seconds it may still use

  bool waits() const { return active && left > 0; }
};

// The job after `last` (-1: the first), or -1 when none has turns left.
//
// Deficit: a visit to job k gives it w_k Q seconds, and a turn costs c_k of them. Q = min c_k /
// w_k, so that no visit ever pays for two turns: jobs interleave as finely as their weights allow.
// (Shreedhar and Varghese 1995, with one packet a visit.)
int32_t NextJob(TurnOrder order, std::span<OrderMember> members, int32_t last);

}  // namespace heddle
