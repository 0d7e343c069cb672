// What ranks that train together tell each other between two parts of the training. The first rank
// decides; all of it travels as bytes.
//
//   TrainingOrder order = NextOrder(state, config, stops);
//   order = OneFromBytes<TrainingOrder>(messages.FromFirst(ToBytes(std::vector{order})));
#pragma once

#include <cstdint>
#include <optional>

#include "run/run_config.h"
#include "run/train/finite_watch.h"
#include "run/train/training_stops.h"

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

// What the first rank decides by.
struct TrainingState {
  int64_t done = 0;              // steps
  int64_t saved = -1;            // the last step saved
  int64_t looked = -1;           // at samples held out, after so many steps
  bool trained = false;          // at least a step in this run
  bool one_part = false;         // from one stop to the next, whatever time it takes
  bool calibrates = false;       // an emulation is to be paced by what the next part takes
  double step_seconds = 0;       // of the last part; 0: not known
  double dilation = 0;           // of an emulation, once it is known
  int asked_to_stop = 0;         // the signal by which some rank was
  std::optional<NotFinite> bad;  // the first that any rank saw
};

// Steps are ordered in parts that take about half a second: rarely enough not to cost anything,
// and often enough to show progress and to stop when asked.
TrainingOrder NextOrder(const TrainingState& state, const RunConfig& config,
                        const TrainingStops& stops);

}  // namespace heddle
