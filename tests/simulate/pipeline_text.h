// Pipelines as Program text: n stages of one layer on one device each, all pieces of equal size.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace heddle {

struct PipelineText {
  int stages = 4;
  int microbatches = 8;
  double forward = 1;  // seconds
  double backward = 2;
  int elements = 125;         // f32, of every message
  std::string channels = "";  // "half", "full" or none

  std::string Text(const std::vector<std::string>& order_of_stage) const {
    std::string text = fmt::format(
        "heddle-program 1\nstrategy test\nsamples {0} as 1*{0}\n"
        "updates 0\nlayers {1}\n\n",
        microbatches, stages);
    for (int s = 0; s < stages; ++s) text += fmt::format("device {} \"a:{}\"\n", s, s);
    for (int s = 0; s + 1 < stages && !channels.empty(); ++s) {
      text += fmt::format("channel {} | {} {}\n", s, s + 1, channels);
    }
    text += "tensor x0 f32[1] input\n";
    for (int s = 1; s < stages; ++s) {
      text += fmt::format("tensor x{0} f32[{1}] activation\ntensor d{0} f32[{1}] gradient\n", s,
                          elements);
    }
    for (int s = 0; s < stages; ++s) text += Segments(s);
    text += "body\n";
    for (int s = 0; s < stages; ++s) text += List(s, order_of_stage[static_cast<size_t>(s)]);
    return text;
  }

  // "FFB…": microbatches in order.
  std::string GpipeOrder() const {
    const auto count = static_cast<size_t>(microbatches);
    return std::string(count, 'F') + std::string(count, 'B');
  }
  std::string OneForwardOneBackward(int stage) const {
    std::string order(static_cast<size_t>(std::min(microbatches, stages - 1 - stage)), 'F');
    int backward_done = 0;
    for (int done = static_cast<int>(order.size()); done < microbatches; ++done) {
      order += "FB";
      ++backward_done;
    }
    return order + std::string(static_cast<size_t>(microbatches - backward_done), 'B');
  }

 private:
  bool First(int s) const { return s == 0; }
  bool Last(int s) const { return s == stages - 1; }

  std::string Segments(int s) const {
    std::string text = fmt::format(
        "segment F{0} forward layers {0}..{0} rows 0:1 time {1} s\n  reads x{0}#\n", s, forward);
    if (!Last(s)) text += fmt::format("  writes x{}#\n", s + 1);
    text += fmt::format("segment B{0} backward layers {0}..{0} rows 0:1 time {1} s\n", s, backward);
    if (!First(s)) text += fmt::format("  consumes x{0}#\n  writes d{0}#\n", s);
    if (!Last(s)) text += fmt::format("  consumes x{0}# d{0}#\n", s + 1);
    return text;
  }

  // Receives are posted at once, sent gradients freed at the end: nothing but data is waited for.
  std::string List(int s, const std::string& order) const {
    std::string text = fmt::format("on {}\n", s);
    for (int m = 0; m < microbatches; ++m) {
      if (!First(s)) text += fmt::format("  recv x{0}#{1} from {2} tag {1}\n", s, m, s - 1);
      if (!Last(s)) text += fmt::format("  recv d{0}#{1} from {0} tag {1}\n", s + 1, m);
    }
    int forward_at = 0, backward_at = 0;
    for (const char kind : order) {
      const int m = kind == 'F' ? forward_at++ : backward_at++;
      text += fmt::format("  compute {}{} #{}\n", kind, s, m);
      if (kind == 'F' && !Last(s))
        text += fmt::format("  send x{0}#{1} to {0} tag {1}\n", s + 1, m);
      if (kind == 'B' && !First(s)) {
        text += fmt::format("  send d{0}#{1} to {2} tag {1}\n", s, m, s - 1);
      }
    }
    for (int m = 0; m < microbatches && !First(s); ++m)
      text += fmt::format("  free d{}#{}\n", s, m);
    return text;
  }
};

}  // namespace heddle
