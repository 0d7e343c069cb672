// What the office believes of a post. Posts come through a pipe that every process of a share may
// write to, as bytes: a rank that is broken could name devices that are not there, a time to come,
// or sizes whose sum is none.
//
//   if (const char* what = FindNonsense(post, {ranks, devices, BoardNow()})) Strike(job, what);
#pragma once

#include <cstdint>
#include <span>

#include "cost/network_cost.h"
#include "run/share/flow_desk.h"

namespace heddle {

struct PostBounds {
  int32_t ranks = 0;    // of the job
  int32_t devices = 0;  // of the cluster
  int64_t now = 0;      // nanoseconds of the board's clock: nobody posts in the future
};

// What is wrong with it; null if nothing is. REQUIRES: post.job is one of the board's.
const char* FindNonsense(const FlowPost& post, const PostBounds& bounds);

// The same of posts that are to be one communication, each of which is sound by itself.
const char* FindDiscord(std::span<const FlowPost> posts, const NetworkCost& cost);

}  // namespace heddle
