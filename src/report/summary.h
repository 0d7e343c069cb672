// Summary: a simulated Plan in words, as explain prints it: the verdict, and what the search did.
//
//   fmt::print("{}", VerdictText(plan, simulation, cluster, throughput, {.width = 80}));
//
//   pipeline (1f1b): gpt on 4 of 4 devices, batch 32 in 8 microbatches, f32
//
//   The limit is the device a:0: it computes 38.0 ms of every 41.0 ms (93%).
//   An iteration takes 41.0 ms; no order of this partition can beat 38.2 ms (7% away); no plan of
//     this family can beat 30.0 ms (37% away).
//   Memory is fullest on a:0: 9.80 GiB of 16.0 GiB (61%).
//   1,840 tokens/s per device (14.4 samples/s), MFU 41.2%.
//
// Each sentence is also a function of its own, for reports that want it alone.
#pragma once

#include <string>

#include "cluster/cluster.h"
#include "program/plan/plan.h"
#include "report/text_table.h"
#include "report/throughput.h"
#include "simulate/simulator.h"

namespace heddle {

// REQUIRES: the simulation is of this plan on this cluster.
std::string VerdictText(const Plan& plan, const Simulation& simulation, const Cluster& cluster,
                        const Throughput& throughput, const TableStyle& style);

// How many plans were simulated, what the planner noted, and those that lost: all, or the best.
std::string SearchText(const SearchReport& search, const TableStyle& style, bool all);

// What is in use for the largest part of the period, a device or a wire; the share of a wire is
// bytes / bandwidth / period. Also says when nothing is: then latency and waiting limit.
std::string BottleneckSentence(const Simulation& simulation, const Cluster& cluster);

// " with 16 microbatches" if that number was asked for: bounds then hold for such plans alone.
std::string WithMicrobatchesGiven(const Plan& plan);

// How far the period is from what is possible. A bound of zero is unknown and not mentioned.
std::string BoundsSentence(const Plan& plan, Seconds iteration);

// What was known of the partition before an order was looked for, beside what is known now; empty
// where nothing was.
std::string GuaranteeSentence(const Estimate& estimate);

// The device whose memory is the fullest; empty when the plan does not say.
std::string MemorySentence(const Estimate& estimate);

}  // namespace heddle
