// What a Trial refers to, in one piece; and plain SGD, written apart from the methods.
//
//   Ground ground(SmallQuadratic(), {.stages = 3}, 0.2);
//   EXPECT_EQ(RunNamed("gpipe", ground).losses, SgdReference(ground, 10, 3).losses);
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lab/methods.h"
#include "lab/problems.h"
#include "lab/quadratic.h"
#include "lab/trial.h"

namespace heddle {

inline constexpr uint64_t kSeed = 11;

// An objective, a schedule, noise: what a Trial refers to.
struct Ground {
  std::unique_ptr<Objective> objective;
  Schedule schedule;
  TrialOptions options;
  Noise noise;
  double sigma = 0;
  double step_size = 0.02;

  Ground(std::unique_ptr<Objective> function, const PipelineClock& clock, double noise_sigma,
         int64_t ticks = 300)
      : objective(std::move(function)),
        schedule(MakeSchedule(clock, ticks)),
        noise(kSeed, NoiseNeeded(clock, ticks, *objective)),
        sigma(noise_sigma) {
    options.ticks = ticks;
    options.points = 7;
    options.every = 3;
  }
  Trial trial() const { return {*objective, schedule, options, noise, sigma, step_size, kSeed}; }
  int stages() const { return schedule.clock.stages; }

  // ∇f(z) of one block, with the noise of a microbatch.
  std::vector<double> BlockGradient(const std::vector<double>& z, const Block& block,
                                    int64_t microbatch) const {
    Pass pass = objective->MakePass();
    pass.draw = {kSeed, microbatch};
    objective->Begin(pass);
    for (const Block& each : objective->Blocks(stages())) {
      objective->Forward(each, z.data() + each.begin, pass);
    }
    objective->Turn(pass);
    std::vector<double> gradient(static_cast<size_t>(block.size()));
    objective->Backward(block, pass, gradient.data());
    for (size_t k = 0; k < gradient.size() && sigma > 0; ++k) {
      const int64_t index =
          microbatch * objective->dimension() + block.begin + static_cast<int64_t>(k);
      gradient[k] += sigma * static_cast<double>(*noise.At(index));
    }
    return gradient;
  }

  std::vector<double> FullGradient(const std::vector<double>& x, int64_t microbatch) const {
    Pass pass = objective->MakePass();
    pass.draw = {kSeed, microbatch};
    std::vector<double> gradient(x.size());
    objective->Gradient(x.data(), pass, gradient.data());
    for (size_t k = 0; k < x.size() && sigma > 0; ++k) {
      const int64_t index = microbatch * objective->dimension() + static_cast<int64_t>(k);
      gradient[k] += sigma * static_cast<double>(*noise.At(index));
    }
    return gradient;
  }
};

inline std::unique_ptr<Objective> SmallQuadratic() { return std::make_unique<Quadratic>(22, 0.01); }
inline std::unique_ptr<Objective> SmallLogistic() {
  return MakeProblem("logistic", {.data = "", .dimension = 11}).value();
}

inline Curve RunNamed(const std::string& name, const Ground& ground) {
  return FindMethod(name).value()->run(ground.trial());
}

// Plain SGD on mean gradients, an update every `round` ticks.
inline Curve SgdReference(const Ground& ground, int64_t round, int64_t batch) {
  std::vector<double> x = ground.objective->Start(kSeed);
  Curve curve;
  int64_t done = 0;
  for (int point = 0; point < ground.options.points; ++point) {
    for (; (done + 1) * round <= PointTick(ground.options, point); ++done) {
      Pass pass = ground.objective->MakePass();
      std::vector<double> gradient(x.size());
      ground.objective->Gradient(x.data(), pass, gradient.data());
      for (size_t k = 0; k < x.size() && ground.sigma > 0; ++k) {
        double sum = 0;
        for (int64_t m = done * batch; m < (done + 1) * batch; ++m) {
          const int64_t index = m * ground.objective->dimension() + static_cast<int64_t>(k);
          sum += ground.sigma * static_cast<double>(*ground.noise.At(index));
        }
        gradient[k] += sum / static_cast<double>(batch);
      }
      for (size_t k = 0; k < x.size(); ++k) x[k] -= ground.step_size * gradient[k];
    }
    curve.losses.push_back(ground.objective->Loss(x.data()));
  }
  return curve;
}

}  // namespace heddle
