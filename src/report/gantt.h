// Gantt: a Timeline drawn on a terminal, one row per device, time to the right.
//
//   fmt::print("{}", DrawGantt(simulation.timeline, {.width = 54}));
//
//   simulated, repetition 0: 16.0 ms
//   a:0 │0░░1░░2░░3░░·········0▓▓▓▓▓1▓▓▓▓▓2▓▓▓▓▓3▓▓▓▓▓███│
//   a:1 │···0░░1░░2░░3░░0▓▓▓▓▓1▓▓▓▓▓2▓▓▓▓▓3▓▓▓▓▓███······│
//       └┬──────────────┬──────────────┬──────────────┬──┘
//    ms  0              5              10             15
//   0░ forward  0▓ backward  █ update  · idle
//
// A column shows what its lane does at the middle of the column's time, so widths are true to one
// column. Two exceptions, since both are short and worth seeing: an update, and whatever a network
// lane carries, take a column of their own unless that hides another event. The first column of an
// event shows its microbatch (0-9, a-z, A-Z); of a backward or a transfer only when it has a second
// column, so a lone digit is always a forward. Colour adds nothing that the characters do not say.
#pragma once

#include <string>

#include "timeline/timeline.h"

namespace heddle {

struct GanttOptions {
  int width = 100;  // of the terminal
  bool colour = false;
  bool show_network = false;  // a second row per device: its transfers and collectives
  int max_rows = 16;          // more than that: only the first and last devices (8 and 4 of 16)
  int repetition = 0;         // of the body: the first to show
  int repetitions = 1;        // how many of them; asynchronous bodies are one microbatch each
};

// Every line is at most `width` wide (but a chart never has fewer than ten columns) and ends in a
// newline. A timeline without the asked repetition gives one line that says so. All events within
// the repetitions' time are drawn, those of their neighbours too: what looks idle is idle.
// REQUIRES: Validate(timeline) passes.
std::string DrawGantt(const Timeline& timeline, const GanttOptions& options);

}  // namespace heddle
