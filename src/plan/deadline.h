// Deadline: when a search has to end; without one it takes as long as it takes.
//
//   planning.deadline = Deadline::In(60);                    // seconds from now
//   while (…) if (planning.deadline.passed()) break;
//
// Planners ask in their loops. Out of time with a plan in hand they give that back, with a note;
// without one, OutOfTime. The clock is a parameter: a test counts questions instead of seconds.
#pragma once

#include <functional>
#include <limits>
#include <string>

#include "base/result.h"

namespace heddle {

class Deadline {
 public:
  using Clock = std::function<double()>;  // seconds since whenever; safe from several threads

  Deadline() = default;  // never
  static Deadline In(double seconds, Clock clock = &SteadySeconds);

  // The earlier of this one and `seconds` from now.
  Deadline AtMost(double seconds) const;

  bool passed() const { return clock_ && clock_() >= end_; }
  bool never() const { return !clock_; }
  double left() const;  // seconds, 0 at least; infinite: never ends

 private:
  static double SteadySeconds();

  Clock clock_;
  double end_ = std::numeric_limits<double>::infinity();
};

// Of a planner that has no plan yet. Infeasible, for a longer search may find one or show that
// there is none.
Error OutOfTime(const std::string& strategy);

// Of a plan that is the best so far.
inline constexpr const char* kCutShort =
    "the search ended with the time given; more may find a faster plan (--budget)";

}  // namespace heddle
