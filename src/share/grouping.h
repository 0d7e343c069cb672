// Grouping: which jobs share, so that the sum of what they save is largest.
//
//   const std::vector<std::vector<size_t>> groups = GroupJobs(jobs, saving);
//
// Of pairs the best choice is found exactly (a matching of maximum weight); larger groups grow from
// them by joining those two whose union saves most beyond what both save, as long as one does.
#pragma once

#include <functional>
#include <optional>
#include <vector>

namespace heddle {

// Seconds that a group of at least two, in rising order, saves; nothing: they must not share.
using SavingOf = std::function<std::optional<double>(const std::vector<size_t>& group)>;

// Every job in exactly one group; jobs rise in a group, and groups by their first job.
std::vector<std::vector<size_t>> GroupJobs(size_t jobs, const SavingOf& saving);

// The same with groups of at most two.
std::vector<std::vector<size_t>> PairJobs(size_t jobs, const SavingOf& saving);

}  // namespace heddle
