// Names in what is printed about SPMD plans.
#pragma once

#include <string>

#include "program/plan/plan.h"

namespace heddle {

// The name without that of its layer: block0.fc1.w is fc1.w, g.block0.fc1.w is g.fc1.w.
std::string ShortName(const std::string& name, const std::string& layer);

// Of both axes, or only the inner one on a flat mesh.
std::string StateText(const SpmdPlan& spmd, const Layout& layout);

// "b", "b.f"; "-" where everybody does everything, "+" where partial sums stay partial.
std::string RuleText(const SpmdPlan& spmd, const OpRule& rule);

// "block0" or "block0 … block3".
std::string LayersText(const Graph& graph, size_t first, size_t end);

// Lines "ratios  devices: 0.311 0.189", for each axis and vector.
std::string RatiosText(const SpmdPlan& spmd);

}  // namespace heddle
