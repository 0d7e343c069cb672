// Each method against a few lines that say the same without the event list.

#include "lab/methods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/philox.h"
#include "lab/batched.h"
#include "lab/local_sgd.h"
#include "lab/pipedream.h"
#include "lab/problems.h"
#include "lab/quadratic.h"
#include "lab/randomized.h"

namespace heddle {
namespace {

constexpr uint64_t kSeed = 11;

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
        noise(kSeed, NoiseNeeded(clock, ticks, objective->dimension())),
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
    objective->Begin(pass);
    for (const Block& each : SplitBlocks(objective->dimension(), stages())) {
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
    std::vector<double> gradient(x.size());
    objective->Gradient(x.data(), pass, gradient.data());
    for (size_t k = 0; k < x.size() && sigma > 0; ++k) {
      const int64_t index = microbatch * objective->dimension() + static_cast<int64_t>(k);
      gradient[k] += sigma * static_cast<double>(*noise.At(index));
    }
    return gradient;
  }
};

std::unique_ptr<Objective> SmallQuadratic() { return std::make_unique<Quadratic>(22, 0.01); }
std::unique_ptr<Objective> SmallLogistic() {
  return MakeProblem("logistic", {.data = "", .dimension = 11}).value();
}

Curve RunNamed(const std::string& name, const Ground& ground) {
  return FindMethod(name).value()->run(ground.trial());
}

// Every block after each of its own updates, by a recurrence: x_j^{m+1} = x_j^m - γ ∇_j f(z(m)),
// z_i(m) = x_i after `version(i, m)` updates.
using Histories = std::vector<std::vector<std::vector<double>>>;  // block, version, values

template <class Version>
Curve DelayedReference(const Ground& ground, const Version& version) {
  const int stages = ground.stages();
  const auto blocks = SplitBlocks(ground.objective->dimension(), stages);
  const std::vector<double> start = ground.objective->Start(kSeed);
  Histories x;
  for (const Block& block : blocks) {
    x.push_back({{start.begin() + block.begin, start.begin() + block.end}});
  }
  for (int64_t m = 0; 2 * m + stages < ground.options.ticks; ++m) {
    std::vector<double> z;
    for (int i = 0; i < stages; ++i) {
      const auto& values = x[static_cast<size_t>(i)][static_cast<size_t>(version(i, m))];
      z.insert(z.end(), values.begin(), values.end());
    }
    for (int j = 0; j < stages; ++j) {
      const auto gradient = ground.BlockGradient(z, blocks[static_cast<size_t>(j)], m);
      std::vector<double> next = x[static_cast<size_t>(j)].back();
      for (size_t k = 0; k < next.size(); ++k) next[k] -= ground.step_size * gradient[k];
      x[static_cast<size_t>(j)].push_back(next);
    }
  }
  Curve curve;
  for (int point = 0; point < ground.options.points; ++point) {
    std::vector<double> at;
    for (int j = 0; j < stages; ++j) {
      // B(j, m) ends at time 2m + 2S - j.
      const int64_t late = PointTick(ground.options, point) - (2 * stages - j);
      const int64_t updates = late < 0 ? 0 : late / 2 + 1;
      const auto& values = x[static_cast<size_t>(j)][static_cast<size_t>(updates)];
      at.insert(at.end(), values.begin(), values.end());
    }
    curve.losses.push_back(ground.objective->Loss(at.data()));
  }
  return curve;
}

TEST(MethodsTest, StashedBlocksAreTheirOwnDelayOld) {
  for (const int stages : {1, 2, 5, 8}) {
    for (const double sigma : {0.0, 0.3}) {
      const Ground ground(SmallQuadratic(), {.stages = stages}, sigma);
      const Curve expected = DelayedReference(
          ground, [&](int j, int64_t m) { return std::max<int64_t>(0, m - (stages - 1 - j)); });
      EXPECT_EQ(RunNamed("pd", ground).losses, expected.losses) << stages;
    }
  }
  const Ground ground(SmallLogistic(), {.stages = 4}, 0.1);
  EXPECT_EQ(RunNamed("pd", ground).losses, DelayedReference(ground, [](int j, int64_t m) {
                                             return std::max<int64_t>(0, m - (3 - j));
                                           }).losses);
}

TEST(MethodsTest, VerticalSyncIsAsOldEverywhere) {
  for (const int stages : {1, 2, 6}) {
    const Ground ground(SmallQuadratic(), {.stages = stages}, 0.2);
    const Curve expected = DelayedReference(
        ground, [&](int, int64_t m) { return std::max<int64_t>(0, m - (stages - 1)); });
    EXPECT_EQ(RunNamed("pd-vertical", ground).losses, expected.losses) << stages;
  }
}

TEST(MethodsTest, ReplayEqualsPipeDreamToTheLastBit) {
  for (const auto& make : {&SmallQuadratic, &SmallLogistic}) {
    for (const int stages : {1, 2, 3, 8, 11}) {
      for (const double sigma : {0.0, 0.2}) {
        const Ground ground(make(), {.stages = stages}, sigma);
        const Curve pd = RunNamed("pd", ground);
        EXPECT_EQ(RunNamed("rpd-replay", ground).losses, pd.losses) << stages;
        EXPECT_FALSE(pd.diverged);
        EXPECT_NE(pd.losses[0], pd.losses[1]);
        EXPECT_EQ(RunNamed("rpd", ground).losses == pd.losses, stages == 1);
      }
    }
  }
  const Ground slow(SmallQuadratic(), {.stages = 5, .backward = 2, .latency = 3}, 0.2);
  EXPECT_EQ(RunNamed("rpd-replay", slow).losses, RunNamed("pd", slow).losses);
}

// Times change when things happen, not what is read on the way.
TEST(MethodsTest, CostsOnlyStretchPipeDream) {
  const Ground unit(SmallQuadratic(), {.stages = 1}, 0.2, 300);
  const Ground slow(SmallQuadratic(), {.stages = 1, .backward = 2}, 0.2, 450);
  EXPECT_EQ(RunNamed("pd", unit).last(), RunNamed("pd", slow).last());
}

// Plain SGD on mean gradients, an update every `round` ticks.
Curve SgdReference(const Ground& ground, int64_t round, int64_t batch) {
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

TEST(MethodsTest, GpipeIsSgdOnMeanGradients) {
  for (const double sigma : {0.0, 0.3}) {
    Ground ground(SmallQuadratic(), {.stages = 3}, sigma);
    EXPECT_EQ(RunNamed("gpipe", ground).losses, SgdReference(ground, 2 * 3 + 2 * 2, 3).losses);
    ground.options.microbatches = 5;
    EXPECT_EQ(RunNamed("gpipe", ground).losses, SgdReference(ground, 2 * 5 + 2 * 2, 5).losses);
  }
  const Ground ground(SmallLogistic(), {.stages = 4, .backward = 2}, 0.1);
  EXPECT_EQ(RunNamed("gpipe", ground).losses, SgdReference(ground, 7 * 3, 4).losses);
}

TEST(MethodsTest, OneReplicaOfOneStepIsSgd) {
  for (const char* name : {"local", "local-plain"}) {
    Ground ground(SmallQuadratic(), {.stages = 1}, 0.3);
    ground.options.every = 1;
    EXPECT_EQ(RunNamed(name, ground).losses, SgdReference(ground, 2, 1).losses);
  }
  // Without noise replicas are equal: LocalSGD is SGD in longer rounds.
  Ground ground(SmallQuadratic(), {.stages = 3}, 0);
  ground.options.every = 1;
  ground.options.average_ticks = 4;
  EXPECT_EQ(RunNamed("local", ground).losses, SgdReference(ground, 6 + 4 + 4, 1).losses);
  EXPECT_EQ(RunNamed("local-plain", ground).losses, SgdReference(ground, 6 + 4, 1).losses);
}

TEST(MethodsTest, LocalAveragesReplicas) {
  const int stages = 3, every = 3;
  const Ground ground(SmallLogistic(), {.stages = stages}, 0.2);
  std::vector<double> x = ground.objective->Start(kSeed);
  const int64_t length = 2 * stages * every + 2 * (stages - 1);
  EXPECT_EQ(LocalRoundTicks(ground.trial(), LocalKind::kMultiplexed), length);
  EXPECT_EQ(LocalRoundTicks(ground.trial(), LocalKind::kPlain), 2 * stages * every);
  for (int64_t round = 0; (round + 1) * length <= ground.options.ticks; ++round) {
    std::vector<double> sum(x.size());
    for (int64_t r = 0; r < stages; ++r) {
      std::vector<double> replica = x;
      for (int64_t h = 0; h < every; ++h) {
        const auto gradient = ground.FullGradient(replica, round * stages * every + h * stages + r);
        for (size_t k = 0; k < x.size(); ++k) replica[k] -= ground.step_size * gradient[k];
      }
      for (size_t k = 0; k < x.size(); ++k) sum[k] += replica[k];
    }
    for (size_t k = 0; k < x.size(); ++k) x[k] = sum[k] / stages;
  }
  EXPECT_EQ(RunNamed("local", ground).last(), ground.objective->Loss(x.data()));
  // DiLoCo whose outer step takes the average over is LocalSGD.
  Ground outer(SmallLogistic(), {.stages = stages}, 0.2);
  outer.options.outer_momentum = 0;
  outer.options.outer_step = 1;
  EXPECT_NEAR(RunNamed("diloco", outer).last(), ground.objective->Loss(x.data()), 1e-12);
}

TEST(MethodsTest, DilocoIsNesterovOnTheAverages) {
  const Ground ground(SmallQuadratic(), {.stages = 2}, 0);
  const double momentum = ground.options.outer_momentum, step = ground.options.outer_step;
  std::vector<double> x = ground.objective->Start(kSeed), velocity(x.size());
  for (int64_t round = 0; (round + 1) * 14 <= ground.options.ticks; ++round) {
    std::vector<double> inner = x;
    for (int h = 0; h < 3; ++h) {
      const auto gradient = ground.FullGradient(inner, 0);
      for (size_t k = 0; k < x.size(); ++k) inner[k] -= ground.step_size * gradient[k];
    }
    for (size_t k = 0; k < x.size(); ++k) {
      velocity[k] = momentum * velocity[k] + (x[k] - inner[k]);
      x[k] -= step * ((x[k] - inner[k]) + momentum * velocity[k]);
    }
  }
  EXPECT_EQ(RunNamed("diloco", ground).last(), ground.objective->Loss(x.data()));
}

// W(t+1) = W(t) - γ g(W(t-1)); stage s ends its update of batch t at tick 2((t+1)M - 1) + 2S - s.
TEST(MethodsTest, TwoVersionsAreOneBatchOld) {
  for (const int64_t batch : {4, 6}) {
    Ground ground(SmallQuadratic(), {.stages = 4}, 0.3);
    ground.options.microbatches = batch;
    const Ground quiet(SmallQuadratic(), {.stages = 4}, 0);
    const auto blocks = SplitBlocks(ground.objective->dimension(), 4);
    std::vector<std::vector<double>> versions = {ground.objective->Start(kSeed)};
    for (int64_t t = 0; 2 * t * batch < ground.options.ticks; ++t) {
      const std::vector<double>& read = versions[static_cast<size_t>(std::max<int64_t>(0, t - 1))];
      std::vector<double> next = versions.back();
      const auto gradient = quiet.FullGradient(read, 0);
      for (size_t k = 0; k < next.size(); ++k) {
        double sum = 0;
        for (int64_t m = t * batch; m < (t + 1) * batch; ++m) {
          const int64_t index = m * ground.objective->dimension() + static_cast<int64_t>(k);
          if (index >= ground.noise.size()) break;  // beyond the end of the race
          sum += ground.sigma * static_cast<double>(*ground.noise.At(index));
        }
        next[k] -= ground.step_size * (gradient[k] + sum / static_cast<double>(batch));
      }
      versions.push_back(next);
    }
    const Curve curve = RunNamed("2bw", ground);
    for (int point = 0; point < ground.options.points; ++point) {
      std::vector<double> at;
      for (int s = 0; s < 4; ++s) {
        const int64_t late = PointTick(ground.options, point) - (2 * (batch - 1) + 8 - s);
        const int64_t updates = late < 0 ? 0 : late / (2 * batch) + 1;
        const auto& version = versions[static_cast<size_t>(updates)];
        const Block& block = blocks[static_cast<size_t>(s)];
        at.insert(at.end(), version.begin() + block.begin, version.begin() + block.end);
      }
      EXPECT_EQ(curve.losses[static_cast<size_t>(point)], ground.objective->Loss(at.data()));
    }
  }
}

// Two stages by hand. B(1, m) follows F(1, m) at once; B(0, m) sees block 0 of its own time, and
// block 1 as B(1, m) saw it.
TEST(MethodsTest, WithoutStashingTheBackwardSeesItsOwnTime) {
  const Ground ground(SmallQuadratic(), {.stages = 2}, 0);
  const auto blocks = SplitBlocks(22, 2);
  std::vector<double> x = ground.objective->Start(kSeed);
  // Order of events: F(0,m+1) at 2m+2 comes before B(1,m) at 2m+2, then B(0,m) at 2m+3.
  std::vector<double> first = x;  // what F(0, 0) read
  int64_t m = 0;
  for (; 2 * m + 4 <= ground.options.ticks; ++m) {
    const std::vector<double> second = x;  // what F(0, m + 1) reads
    std::vector<double> z = x;
    std::copy(first.begin(), first.begin() + blocks[0].end, z.begin());
    const auto gradient1 = ground.BlockGradient(z, blocks[1], m);
    std::copy(x.begin(), x.begin() + blocks[0].end, z.begin());
    const auto gradient0 = ground.BlockGradient(z, blocks[0], m);
    for (size_t k = 0; k < 11; ++k) {
      x[11 + k] -= ground.step_size * gradient1[k];
      x[k] -= ground.step_size * gradient0[k];
    }
    first = second;
  }
  EXPECT_EQ(m, 149);
  EXPECT_EQ(RunNamed("pd-nostash", ground).last(), ground.objective->Loss(x.data()));
  EXPECT_NE(RunNamed("pd-nostash", ground).last(), RunNamed("pd", ground).last());
  const Ground one(SmallQuadratic(), {.stages = 1}, 0.2);
  EXPECT_EQ(RunNamed("pd-nostash", one).losses, RunNamed("pd", one).losses);
}

TEST(MethodsTest, StagesMayHaveStepsOfTheirOwn) {
  // With one stage γ / (S - 0) = γ. With two, block 0 moves half as far in its first update.
  const Ground one(SmallQuadratic(), {.stages = 1}, 0.2);
  EXPECT_EQ(RunNamed("pd-stage-steps", one).losses, RunNamed("pd", one).losses);
  Ground two(SmallQuadratic(), {.stages = 2}, 0, 4);  // ends with B(0, 0)
  two.options.points = 1;
  std::vector<double> x = two.objective->Start(kSeed);
  const auto gradient = two.FullGradient(x, 0);
  for (size_t k = 0; k < x.size(); ++k) {
    x[k] -= two.step_size / (k < 11 ? 2 : 1) * gradient[k];
  }
  EXPECT_EQ(RunNamed("pd-stage-steps", two).last(), two.objective->Loss(x.data()));
}

TEST(MethodsTest, MomentumAndLookAhead) {
  // One stage: v ← βv + (1-β)g; nothing to look ahead to.
  const Ground one(SmallQuadratic(), {.stages = 1}, 0.2);
  std::vector<double> x = one.objective->Start(kSeed), velocity(x.size());
  for (int64_t m = 0; 2 * m + 2 <= one.options.ticks; ++m) {
    const auto gradient = one.FullGradient(x, m);
    for (size_t k = 0; k < x.size(); ++k) {
      velocity[k] = 0.9 * velocity[k] + (1 - 0.9) * gradient[k];
      x[k] -= one.step_size * velocity[k];
    }
  }
  EXPECT_EQ(RunNamed("pd-momentum", one).last(), one.objective->Loss(x.data()));
  EXPECT_EQ(RunNamed("pd-lookahead", one).losses, RunNamed("pd-momentum", one).losses);
  // Two stages, up to B(1, 2) at tick 6: F(0, 2) at tick 4 reads x_0 - γ v_0 after B(0, 0).
  Ground two(SmallQuadratic(), {.stages = 2}, 0, 7);
  two.options.points = 1;
  std::vector<double> y = two.objective->Start(kSeed), v(y.size());
  const auto blocks = SplitBlocks(22, 2);
  const auto apply = [&](int s, const std::vector<double>& z) {
    const Block& block = blocks[static_cast<size_t>(s)];
    const auto gradient = two.BlockGradient(z, block, 0);
    for (size_t k = 0; k < gradient.size(); ++k) {
      const size_t at = static_cast<size_t>(block.begin) + k;
      v[at] = 0.9 * v[at] + (1 - 0.9) * gradient[k];
      y[at] -= two.step_size * v[at];
    }
  };
  const auto start = y;
  const auto with = [&](const std::vector<double>& first) {  // block 0 of `first`, block 1 of today
    std::vector<double> z = y;
    std::copy(first.begin(), first.begin() + 11, z.begin());
    return z;
  };
  const auto z0 = with(start);
  apply(1, z0);                 // B(1, 0), tick 2
  const auto z1 = with(start);  // F(1, 1), tick 3; F(0, 1) read the start at tick 2
  apply(0, z0);                 // B(0, 0), tick 3
  std::vector<double> ahead = y;
  for (size_t k = 0; k < 11; ++k) ahead[k] = y[k] - two.step_size * v[k];  // F(0, 2), tick 4
  apply(1, z1);                                                            // B(1, 1), tick 4
  const auto z2 = with(ahead);                                             // F(1, 2), tick 5
  apply(0, z1);                                                            // B(0, 1), tick 5
  apply(1, z2);                                                            // B(1, 2), tick 6
  EXPECT_EQ(RunNamed("pd-lookahead", two).last(), two.objective->Loss(y.data()));
}

TEST(MethodsTest, WithoutDelayOneStageIsSgd) {
  // One block, no delay: RPD is SGD whatever the mode, since δ = 0.
  const Ground one(SmallQuadratic(), {.stages = 1}, 0.3);
  for (const char* name : {"rpd", "rpd-maximal", "rpd-zero"}) {
    EXPECT_EQ(RunNamed(name, one).losses, SgdReference(one, 2, 1).losses) << name;
  }
}

// The algorithm as it is written down, with every x kept: δ = 7 for three stages.
TEST(MethodsTest, RandomizedPipeDreamAsWritten) {
  for (const char* name : {"rpd-maximal", "rpd-zero", "rpd"}) {
    const Ground ground(SmallLogistic(), {.stages = 3}, 0.2);
    const Ground quiet(SmallLogistic(), {.stages = 3}, 0);
    const auto blocks = SplitBlocks(11, 3);  // 3, 4 and 4 elements
    const RandomStream choice(kSeed, "lab.rpd.block"), delays(kSeed, "lab.rpd.delay");
    std::vector<std::vector<double>> x = {ground.objective->Start(kSeed)};
    for (uint64_t k = 0; k < static_cast<uint64_t>(ground.schedule.updates); ++k) {
      const uint64_t most = std::min<uint64_t>(7, k);
      std::vector<double> z;
      for (size_t j = 0; j < 3; ++j) {
        const std::string mode = name;
        const uint64_t uniform = (uint64_t{delays.Words(k)[j]} * (most + 1)) >> 32;
        const uint64_t delay = mode == "rpd" ? uniform : mode == "rpd-maximal" ? most : 0;
        const std::vector<double>& then = x[k - delay];
        z.insert(z.end(), then.begin() + blocks[j].begin, then.begin() + blocks[j].end);
      }
      const Block& block = blocks[choice.Below(k, 3)];
      const auto gradient = quiet.BlockGradient(z, block, 0);
      std::vector<double> next = x.back();
      for (size_t e = 0; e < gradient.size(); ++e) {
        const double noise = static_cast<double>(*ground.noise.At(static_cast<int64_t>(4 * k + e)));
        next[static_cast<size_t>(block.begin) + e] -=
            ground.step_size * (gradient[e] + ground.sigma * noise);
      }
      x.push_back(next);
    }
    EXPECT_EQ(RunNamed(name, ground).last(), ground.objective->Loss(x.back().data())) << name;
  }
}

TEST(MethodsTest, LargerDelaysAreFurtherOff) {
  const Ground ground(std::make_unique<Quadratic>(64, 0.01), {.stages = 8}, 0);
  Staleness uniform, maximal, zero;
  RunRandomized(ground.trial(), DelayMode::kUniform, &uniform);
  RunRandomized(ground.trial(), DelayMode::kMaximal, &maximal);
  RunRandomized(ground.trial(), DelayMode::kZero, &zero);
  EXPECT_EQ(zero.distance, 0);
  EXPECT_LT(uniform.distance, maximal.distance);
  EXPECT_GT(uniform.distance, 0);
  EXPECT_EQ(uniform.updates, ground.schedule.updates);
}

TEST(MethodsTest, HistoryKeepsWhatWas) {
  const std::vector<Block> blocks = SplitBlocks(7, 3);
  std::vector<double> x = {0, 1, 2, 3, 4, 5, 6};
  const int64_t depth = 6;
  BlockHistory history(x, blocks, depth);
  std::vector<std::vector<double>> all = {x};
  for (int step = 0; step < 60; ++step) {
    const int chosen = (step * step + step / 7) % 3;
    const Block& block = blocks[static_cast<size_t>(chosen)];
    for (int64_t k = block.begin; k < block.end; ++k) x[static_cast<size_t>(k)] += 10 + step;
    history.Push(chosen, x.data() + block.begin);
    all.push_back(x);
    for (int64_t delay = 0; delay <= std::min<int64_t>(depth, step + 1); ++delay) {
      const std::vector<double>& then = all[all.size() - 1 - static_cast<size_t>(delay)];
      for (int j = 0; j < 3; ++j) {
        const Block& read = blocks[static_cast<size_t>(j)];
        const double* values = history.Read(j, delay);
        for (int64_t k = 0; k < read.size(); ++k) {
          ASSERT_EQ(values[k], then[static_cast<size_t>(read.begin + k)]) << step << " " << delay;
        }
      }
    }
  }
}

TEST(MethodsTest, DivergenceIsSaidNotPrinted) {
  for (const Method& method : Methods()) {
    Ground ground(SmallQuadratic(), {.stages = 4}, 0.1, 2000);
    ground.step_size = 50;
    const Curve curve = method.run(ground.trial());
    EXPECT_TRUE(curve.diverged) << method.name;
    EXPECT_EQ(curve.losses.size(), 7U);
    EXPECT_TRUE(std::isinf(curve.last())) << method.name;
    for (const double loss : curve.losses) EXPECT_FALSE(std::isnan(loss)) << method.name;
  }
}

TEST(MethodsTest, NamesAreOfferedWhenMistyped) {
  const auto found = FindMethod("gpip");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().hint.find("\"gpipe\""), std::string::npos);
}

}  // namespace
}  // namespace heddle
