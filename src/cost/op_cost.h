// Op cost: how long a device computes an op on given local extents.
//
// Roofline (Williams, Waterman, Patterson 2009), plus the time to launch a kernel:
//   seconds = launch + max(flops / rate, bytes / memory bandwidth)
// An opaque op takes its profiled seconds in proportion to its rows, scaled by relative speed where
// the profiled device's rate is known. A profile overrides both.
#pragma once

#include <span>
#include <string>

#include "cluster/cluster_spec.h"
#include "cost/profile.h"
#include "model/graph.h"

namespace heddle {

class OpCost {
 public:
  // `profile` may be null. All three must outlive this.
  OpCost(const Graph& graph, const Profile* profile) : graph_(&graph), profile_(profile) {}

  // REQUIRES: one extent per letter of the op.
  Seconds OpSeconds(const Op& op, std::span<const int64_t> extents,
                    const DeviceTypeSpec& type) const;

  // The whole op on `rows` samples.
  Seconds RowsSeconds(const Op& op, int64_t rows, const DeviceTypeSpec& type) const;

  const Graph& graph() const { return *graph_; }

 private:
  const Graph* graph_;
  const Profile* profile_;
};

// What a measurement is filed under: kind, letters, extents and dtype, without names.
//   "einsum bsh,hf->bsf b=4 s=128 h=768 f=3072 f32"
std::string SignatureOf(const Graph& graph, const Op& op, std::span<const int64_t> extents);

}  // namespace heddle
