// A job of a share in its processes: the one that leads it, and a rank for each device.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "run/share/board.h"
#include "run/share/flow_desk.h"
#include "run/share/shaped_links.h"
#include "run/share/share_config.h"
#include "worker/share_jobs.h"

namespace heddle {

// One go at running some of the jobs.
struct SharePhase {
  std::string name;  // also a folder of the share's directory
  ShareManner manner = ShareManner::kAlone;
  bool ordered = true;
  double dilation = 0;
  int64_t repetitions = 0;  // of the body; 0: as many as the job's own

  // The office is the network, if that is emulated; and gives out tickets, if there is no order.
  bool PacesNetwork(const ShareConfig& config) const { return dilation > 0 && config.shaped == 0; }
  bool NeedsOffice(const ShareConfig& config) const {
    return PacesNetwork(config) || (manner == ShareManner::kTurns && !ordered);
  }
};

// The nodes of the share, where each is a network namespace.
struct ShareHosts {
  ShapedLinks links;
  std::vector<int32_t> host_of;  // by device of the share
};

struct ShareRun {
  const ShareConfig& config;
  const ShareJob& job;
  SharePhase phase;
  Board board;
  int32_t number = 0;                 // on the board
  std::optional<FlowDesk> desk;       // if the network has an office
  const ShareHosts* hosts = nullptr;  // if links are shaped

  int64_t repetitions() const;
  std::string directory() const;
  std::string NotesPath(int32_t rank) const;
};

// The life of a job's first process: forks the ranks and watches them.
Status LeadShareJob(const ShareRun& run);

// What the ranks of a job that ended well noted down.
Result<std::vector<RankNotes>> ReadNotes(const ShareRun& run);

}  // namespace heddle
