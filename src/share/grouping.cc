#include "share/grouping.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/maximum_weighted_matching.hpp>
#include <cmath>
#include <cstdint>
#include <utility>

namespace heddle {
namespace {

using MatchingGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                          boost::property<boost::edge_weight_t, int64_t>>;

double SavingIn(const SavingOf& saving, const std::vector<size_t>& group) {
  return group.size() < 2 ? 0 : saving(group).value_or(0);
}

std::vector<size_t> Joined(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  std::vector<size_t> all(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), all.begin());
  return all;
}

}  // namespace

std::vector<std::vector<size_t>> PairJobs(size_t jobs, const SavingOf& saving) {
  std::vector<std::pair<std::pair<size_t, size_t>, double>> savings;
  double most = 0;
  for (size_t a = 0; a < jobs; ++a) {
    for (size_t b = a + 1; b < jobs; ++b) {
      const double saved = SavingIn(saving, {a, b});
      if (saved <= 0) continue;
      savings.push_back({{a, b}, saved});
      most = std::max(most, saved);
    }
  }
  // Whole numbers, since the algorithm halves and compares sums of weights.
  constexpr double kLargest = 1e12;
  MatchingGraph graph(jobs);
  for (const auto& [pair, saved] : savings) {
    const auto weight = static_cast<int64_t>(std::llround(saved / most * kLargest));
    if (weight > 0) boost::add_edge(pair.first, pair.second, 2 * weight, graph);
  }
  std::vector<boost::graph_traits<MatchingGraph>::vertex_descriptor> mate(jobs);
  if (jobs > 0) boost::maximum_weighted_matching(graph, mate.data());
  std::vector<std::vector<size_t>> groups;
  for (size_t a = 0; a < jobs; ++a) {
    const auto none = boost::graph_traits<MatchingGraph>::null_vertex();
    if (mate[a] == none) groups.push_back({a});
    if (mate[a] != none && a < mate[a]) groups.push_back({a, mate[a]});
  }
  return groups;
}

std::vector<std::vector<size_t>> GroupJobs(size_t jobs, const SavingOf& saving) {
  std::vector<std::vector<size_t>> groups = PairJobs(jobs, saving);
  for (;;) {
    double best = 0;
    std::pair<size_t, size_t> pair;
    for (size_t a = 0; a < groups.size(); ++a) {
      for (size_t b = a + 1; b < groups.size(); ++b) {
        if (groups[a].size() + groups[b].size() < 3) continue;  // the matching left them apart
        const double apart = SavingIn(saving, groups[a]) + SavingIn(saving, groups[b]);
        const double more = SavingIn(saving, Joined(groups[a], groups[b])) - apart;
        if (more <= best + 1e-12) continue;
        best = more;
        pair = {a, b};
      }
    }
    if (best <= 0) break;
    groups[pair.first] = Joined(groups[pair.first], groups[pair.second]);
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(pair.second));
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

}  // namespace heddle
