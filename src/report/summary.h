// Summary: a simulated Plan in words and one table, as explain prints it.
//
//   fmt::print("{}", ExplainText(plan, simulation, cluster, {.width = 100}));
//
//   pipeline (1f1b): gpt on 4 of 4 devices, batch 32 in 8 microbatches, f32
//
//   device  stage  layers     busy  idle      sent  received  peak memory  capacity
//   ──────  ─────  ──────  ───────  ────  ────────  ────────  ───────────  ────────
//   a:0         0     0-5  38.0 ms    7%  8.00 MiB  8.00 MiB     9.80 GiB  16.0 GiB
//   …
//   The limit is the device a:0: it computes 38.0 ms of every 41.0 ms (93%).
//   iteration 41.0 ms; no order of this partition can beat 38.2 ms (7% away); no plan of this
//   family can beat 30.0 ms (37% away)
//
// Each sentence is also a function of its own, for reports that want it without the table.
#pragma once

#include <string>

#include "cluster/cluster.h"
#include "program/plan/plan.h"
#include "report/text_table.h"
#include "simulate/simulator.h"

namespace heddle {

// REQUIRES: the simulation is of this plan on this cluster.
std::string ExplainText(const Plan& plan, const Simulation& simulation, const Cluster& cluster,
                        const TableStyle& style);

// What is in use for the largest part of the period, a device or a wire; the share of a wire is
// bytes / bandwidth / period. Also says when nothing is: then latency and waiting limit.
std::string BottleneckSentence(const Simulation& simulation, const Cluster& cluster);

// How far the period is from what is possible. A bound of zero is unknown and not mentioned.
std::string BoundsSentence(const Estimate& estimate, Seconds iteration);

// The device whose memory is the fullest; empty when the plan does not say.
std::string MemorySentence(const Estimate& estimate);

}  // namespace heddle
