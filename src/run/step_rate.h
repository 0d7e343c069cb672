// StepRate: how many steps a second a run makes, from what each step took.
//
// A device may report many steps at once, long after they were made: an asynchronous pipeline does
// not stop between them. So nothing here hangs on when a report comes. The first step, which is
// cold, counts only while there is no other.
//
//   StepRate rate;
//   rate.Add(0.5);
//   rate.Add(0.1);
//   rate.Add(0.1);
//   rate.per_second();  // 10
#pragma once

#include <cstdint>

namespace heddle {

class StepRate {
 public:
  void Add(double seconds) {
    if (steps_++ == 0) {
      first_ = seconds;
    } else {
      later_ += seconds;
    }
  }

  // 0: not known.
  double per_second() const {
    const double seconds = steps_ > 1 ? later_ : first_;
    const auto steps = static_cast<double>(steps_ > 1 ? steps_ - 1 : steps_);
    return seconds > 0 ? steps / seconds : 0;
  }

 private:
  int64_t steps_ = 0;
  double first_ = 0, later_ = 0;
};

}  // namespace heddle
