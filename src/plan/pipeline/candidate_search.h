// Candidates for SPP: for several device orders (device_order.h), as one pipeline or as several
// side by side, for every number of microbatches and of stages the partitions (partition.h) that
// look best without knowing an order of work.
#pragma once

#include <vector>

#include "plan/pipeline/candidate.h"

namespace heddle {

// The best estimate first. Memory is taken `memory_factor` times as estimated; at 0 everything
// fits. The table must outlive them.
std::vector<Candidate> FindCandidates(const LayerTable& table, double memory_factor);

// Of what needs least memory, the smallest microbatches and as many devices as there are, those
// that fill it least by the estimates. Empty: out of time.
std::vector<Candidate> FindLeastMemory(const LayerTable& table);

}  // namespace heddle
