// A Program from a plan.json, or from a text file in Program form with its cluster beside it.
#pragma once

#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/other_cluster.h"
#include "program/check/check.h"
#include "program/program.h"
#include "simulate/simulator.h"

namespace heddle {

struct ProgramFlags {
  std::string file;
  std::string cluster;
  std::string profile;
  std::string links;  // empty: the plan's, or shared

  void AddTo(const Command& command, bool with_links);
};

struct ProgramSource {
  std::string file;
  std::unique_ptr<Profile> profile;
  LoadedPlan loaded;                 // when the file is a plan
  DeviceMatch match;                 // and was moved to another cluster
  std::unique_ptr<Cluster> cluster;  // when it is a Program
  std::unique_ptr<Graph> graph;      // when a Program names a model
  Program program;
  bool is_plan = false;

  const Cluster& GetCluster() const { return is_plan ? *loaded.cluster : *cluster; }
  const Graph* GetGraph() const { return is_plan ? &loaded.planning->graph : graph.get(); }
};

Result<ProgramSource> LoadProgramSource(const ProgramFlags& flags);

// For commands that look at no times: a profile is only wanted where the plan was made with one,
// which it is compared with.
Status RefuseUnreadProfile(const std::string& profile, const Plan& plan);

// The link model to simulate with.
Result<LinkModel> LinksOf(const ProgramFlags& flags, const ProgramSource& source);

// The checker's verdict with the cluster's memory limits.
Result<Verdict> CheckSource(const ProgramSource& source);

// The first finding as an error: too little memory is infeasible, the rest bad input.
Error ErrorOf(const Verdict& verdict, const std::string& file, const std::string& hint);

// Rows of the keys `memory` and `devices`.
Json MemoryJson(const ProgramSource& source, const Verdict& verdict);
Json DevicesJson(const Simulation& simulation);

}  // namespace heddle
