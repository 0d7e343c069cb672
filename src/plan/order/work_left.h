// WorkLeft: how early a pipeline can end, seen from one of its stages in the midst of a run. A rule
// that makes orders stops when it cannot end in time any more.
//
// A stage that starts something at a time t has this and all its other work still to do; and after
// its last backward the microbatch goes on to the first stage:
//
//   end >= t + all that is left here
//   end >= t + what is left here but weight parts + the way back from here + a weight part at the
//   end
#pragma once

#include <vector>

#include "plan/order/pipe_shape.h"

namespace heddle {

class WorkLeft {
 public:
  explicit WorkLeft(const PipeShape& shape);

  // What is started now is no longer left afterwards. When the pipeline ends at the earliest.
  double Start(const PlacedWork& work, double now);

 private:
  struct Left {
    double all = 0;
    double chain = 0;  // without weight parts, and with the way back
  };
  const PipeShape& shape_;
  std::vector<Left> left_;  // by stage
};

}  // namespace heddle
