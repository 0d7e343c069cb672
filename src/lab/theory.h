// Theory: the convergence bound of Randomized PipeDream, and how stale reads are in a race.
//
// Over K block updates with step size γ on S stages,
//
//   mean of E‖∇f‖² <= 2SΔ/(γK) + γSLG² + γ²L²δ²G²
//
// where f is L-smooth, Δ = f(x⁰) - f*, block gradients are unbiased with E‖·‖² <= G² whatever came
// before (a second moment: with Gaussian noise no norm is bounded), and delays are at most
// δ = ⌊S² - S/2⌋, so that E‖x - z‖² <= γ²δ²G². The last term is of order S⁴. A sharper accounting
// takes the blocks one by one: block j moved n_j times between its read and its use, so
// E‖x - z‖² <= γ²G² E Σ n_j², of order S³. Blocks are drawn evenly, so n_j is binomial:
//
//   E Σ n_j² = δ²/S + δ(1 - 1/S)                    if every delay is δ, the most that is allowed
//   E Σ n_j² = δ(2δ + 1)/(6S) + δ(1 - 1/S)/2        if delays are uniform in 0 … δ
//
// All of that is proven, for Randomized PipeDream. For PipeDream itself, whose blocks follow each
// other in a fixed order, no bound is: its Σ n_j² is counted in the schedule, its ‖x - z‖²
// measured.
//
//   const Bound bound = BoundAt({.stages = 8, .steps = 1e6}, step_size, Accounting::kConstant);
#pragma once

#include <cstdint>
#include <vector>

#include "base/interval.h"
#include "base/result.h"
#include "lab/objective.h"
#include "lab/schedule.h"

namespace heddle {

struct BoundInputs {
  int stages = 1;
  double smoothness = 1;  // L
  double gradient = 1;    // G, the root of the second moment
  double gap = 1;         // Δ
  double steps = 1;       // K, block updates
};

enum class Accounting : uint8_t { kByDelay, kConstant, kUniform };  // δ², E Σ n_j²

// δ², or E Σ n_j² of Randomized PipeDream, by the formulas above.
double StaleCount(int stages, Accounting accounting);
// Σ n_j² of PipeDream, the largest over the stages, counted in the schedule.
int64_t PipeDreamCount(int stages);
// The mean of Σ n_j² over so many updates of Randomized PipeDream, counted; delays as the
// accounting says. REQUIRES: not kByDelay.
double CountedReads(int stages, Accounting accounting, int64_t updates, uint64_t seed);

struct Bound {
  double step_size = 0;
  double descent = 0;  // 2SΔ/(γK)
  double noise = 0;    // γSLG²
  double stale = 0;    // γ²L²G² times the count
  double total() const { return descent + noise + stale; }
};
Bound BoundAt(const BoundInputs& inputs, double step_size, Accounting accounting);

// min{1/L, √(2Δ/(LG²K))}: the last term is ignored.
double TunedStep(const BoundInputs& inputs);
// The same, and at most (SΔ/(L²G² count K))^{1/3}, where the first and last terms balance.
double TunedStepWithStale(const BoundInputs& inputs, Accounting accounting);

struct StalenessOptions {
  std::vector<int> stages;
  double step_size = 0;  // one for all; 0: half of what is stable for the most stages
  double noise = 0;
  int seeds = 5;
  int64_t ticks = 4000;
  int threads = 2;
};

// How far reads are from the weights they change, on the way of one method.
struct StalenessRow {
  int stages = 0;
  Interval distance;   // mean of ‖x - z‖² over the updates
  Interval gradient;   // mean of ‖∇_i f(z; ξ)‖², the block updated
  double largest = 0;  // of these squared norms: G²
  Interval count;      // distance / (γ² gradient): to be held against δ² and Σ n_j²
};

struct StalenessFit {
  std::vector<StalenessRow> rows;
  // Exponents of S, by least squares on logarithms over stages and seeds; both zero with fewer than
  // three numbers of stages above one.
  Interval distance_exponent;
  Interval count_exponent;
};

struct StalenessStudy {
  double step_size = 0;
  StalenessFit pipedream;
  StalenessFit randomized;
};

// Bad input: options out of range, or a step size that diverges.
Result<StalenessStudy> MeasureStaleness(const Objective& objective,
                                        const StalenessOptions& options);

}  // namespace heddle
