// What ranks that train together tell each other between two parts of the training. The first rank
// decides; both travel as bytes.
//
//   TrainingOrder order{.steps = 10, .save = true};
//   order = OneFromBytes<TrainingOrder>(messages.FromFirst(ToBytes(std::vector{order})));
#pragma once

#include <cstdint>

#include "run/torch/finite_watch.h"

namespace heddle {

// What the first rank tells the others to do next.
struct TrainingOrder {
  int64_t steps = 0;
  double dilation = 0;  // of an emulation; 0: not paced yet
  bool evaluate = false;
  bool save = false;
  bool compare = false;  // replicas of weights, also before each save
  bool end = false;
  int stopped_by = 0;  // a signal: this is the end, before its time
  bool bad = false;    // something was not finite: find out what was first, and end
  NotFinite what;
};

// What a rank tells the first one after each part, beside its losses.
struct PartNote {
  int asked_to_stop = 0;  // by a signal
  bool bad = false;
  NotFinite what;
};

}  // namespace heddle
