// What A* says about an SPMD plan: how near its program is to the cheapest on its mesh, at its
// ratios, and a cheaper one where there is one.
//
//   HEDDLE_ASSIGN(const auto certificate, CertifyBest(planning, "spmd", best));
//   certificate->gap();      // 0: no program on that mesh costs less, at these ratios
//
// Where memory is plenty the bound is that of all programs; where the cheapest of all does not fit,
// that of those which fit (memory_limits.h), and programs that the limits let pass are looked at
// with the memory they really take. Of models so large that bytes get no prices it stays that of
// all programs.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "plan/planning.h"
#include "plan/spmd/astar.h"
#include "plan/spmd/estimate.h"

namespace heddle {

// The mesh of a plan for the cluster.
Result<SpmdMesh> MeshOf(const Cluster& cluster, const SpmdPlan& plan);

struct Certified {
  SearchCertificate certificate;
  std::optional<SpmdPlan> better;  // costs less, and fits
  double better_seconds = 0;       // its cost
};
// REQUIRES: a plan for the planning's batch, taken at once.
Result<Certified> Certify(const Planning& planning, const SpmdPlan& plan,
                          const AStarOptions& effort = {});

// Of the best plan; nothing where that is no SPMD program. What is cheaper is tried too, and what
// is certified is the plan that is the best then.
Result<std::optional<SearchCertificate>> CertifyBest(const Planning& planning,
                                                     const std::string& strategy, Best& best);

}  // namespace heddle
