// Plain plans: what anybody would try first. Replicas of the whole model on all devices, with equal
// shares or shares by speed; one device a stage in the order of the file, cut where the slowest
// stage is fastest, under GPipe, 1F1B, interleaved and zero-bubble orders.
//
// The first planners (baselines.h) are these with a number of microbatches; for the search of
// pipelines (spp.h) they are candidates that it would be a shame to be behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/microbatch_counts.h"
#include "plan/pipeline/candidate.h"
#include "plan/planning.h"

namespace heddle {

// Shares of the devices, in the cluster's order.
std::vector<double> EqualShares(const Planning& planning);
std::vector<double> SharesBySpeed(const Planning& planning);

// One stage of all devices.
Plan ReplicasPlan(const Planning& planning, const std::string& strategy,
                  const std::vector<double>& shares, int64_t microbatches);

// Whose slowest device computes so long for all of its samples, at least: nobody has fewer of a
// microbatch than its share, rounded down.
double ReplicasBound(const Planning& planning, const std::vector<double>& shares,
                     int64_t microbatches);

// What the sums of all gradients take, one after the other, each as fast as can be; 0 where servers
// add them up.
double ReplicaSumSeconds(const Planning& planning);

// The same, and nobody has a gradient before its forward of the last microbatch is over. Then all
// are summed, and a device updates its weights before it goes on with the next batch.
double ReplicasBoundWithSums(const Planning& planning, const std::vector<double>& shares,
                             int64_t microbatches, double sums);

// `rounds` runs of layers per device; run k is on device k modulo the number of devices.
struct FileStages {
  std::vector<LayerRun> runs;
  double bound;  // no order of them is faster: before a stage's work lies the way to it
};
FileStages FileStagesFor(const Planning& planning, int64_t microbatches, int devices, int rounds);

// With one order for each device.
Plan FileStagesPlan(const Planning& planning, const std::string& strategy, const FileStages& stages,
                    const std::vector<WorkOrder>& orders, int64_t microbatches);

// Such replicas with every number of microbatches that may be faster than the best, the least bound
// first.
Status TryReplicas(const Planning& planning, const std::string& strategy,
                   const std::vector<double>& shares, Best& best);

// One device a stage in the order of the file, as a candidate of the search.
class FileOrder {
 public:
  explicit FileOrder(const LayerTable& table);
  Candidate CandidateFor(int64_t microbatches, bool recompute) const;
  int stages() const { return stages_; }

 private:
  const LayerTable& table_;
  int stages_;
  std::shared_ptr<const DeviceLine> line_;
};

// As it is and, where it does not fit, with recomputation.
Result<CountTuning::Trial> TryWithRecompute(Best& best, Plan plan);
Result<CountTuning::Trial> TryZbH1(const FileOrder& file, const std::string& strategy,
                                   int64_t microbatches, Best& best);

// All of them, with every number of microbatches that the planners of baselines.h may come to,
// unless it is clear that they are no faster than the best.
Status TryPlainPlans(const LayerTable& table, const std::string& strategy, Best& best);

}  // namespace heddle
