// The language model: its gradients, what a stage sees, and that methods learn with it.

#include "lab/language_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ground.h"
#include "lab/small_matrix.h"

namespace heddle {
namespace {

constexpr NetworkShape kTiny{.layers = 2, .hidden = 16, .context = 5, .samples = 3};

std::unique_ptr<LanguageModel> TinyModel() {
  const TextSource text = TextSource::Of(MadeText(3000), "made", kTiny.context + 1).value();
  return std::make_unique<LanguageModel>(text, kTiny);
}

std::vector<double> GradientOf(const LanguageModel& model, const std::vector<double>& x,
                               const Draw& draw) {
  Pass pass = model.MakePass();
  pass.draw = draw;
  std::vector<double> gradient(x.size());
  model.Gradient(x.data(), pass, gradient.data());
  return gradient;
}

TEST(LanguageModelTest, GradientIsThatOfTheLoss) {
  const auto model = TinyModel();
  std::vector<double> x = model->Start(1);
  const std::vector<double> gradient = GradientOf(*model, x, {1, 7});
  Pass pass = model->MakePass();
  pass.draw = {1, 7};
  for (size_t k = 0; k < x.size(); ++k) {
    const double step = 1e-6, middle = x[k];
    x[k] = middle + step;
    const double above = model->SampleLoss(x.data(), pass);
    x[k] = middle - step;
    const double below = model->SampleLoss(x.data(), pass);
    x[k] = middle;
    ASSERT_NEAR(gradient[k], (above - below) / (2 * step), 1e-8) << k;
  }
}

// Every block by itself, as Randomized PipeDream takes them, and all in descending order, as a
// pipeline does: the same bits.
TEST(LanguageModelTest, BlocksGiveTheWholeGradient) {
  const auto model = TinyModel();
  const std::vector<double> x = model->Start(4);
  const std::vector<double> whole = GradientOf(*model, x, {4, 2});
  for (int stages = 1; stages <= model->most_stages(); ++stages) {
    const std::vector<Block> blocks = model->Blocks(stages);
    EXPECT_EQ(blocks.front().begin, 0);
    EXPECT_EQ(blocks.back().end, model->dimension());
    Pass pipeline = model->MakePass(), alone = model->MakePass();
    const auto forwards = [&](Pass& pass) {
      pass.draw = {4, 2};
      model->Begin(pass);
      for (const Block& block : blocks) model->Forward(block, x.data() + block.begin, pass);
      model->Turn(pass);
    };
    forwards(pipeline);
    for (size_t s = blocks.size(); s-- > 0;) {
      const Block& block = blocks[s];
      EXPECT_EQ(s == 0 ? 0 : blocks[s - 1].end, block.begin);
      const std::vector<double> expected(whole.begin() + block.begin, whole.begin() + block.end);
      std::vector<double> part(expected.size());
      model->Backward(block, pipeline, part.data());
      EXPECT_EQ(part, expected) << s << " of " << stages;
      forwards(alone);
      std::fill(part.begin(), part.end(), 0.0);
      model->Backward(block, alone, part.data());
      EXPECT_EQ(part, expected) << s << " of " << stages;
    }
  }
}

// Without a stash a stage's own gradient is what its forward made it: only what it sends to the
// stages before it is multiplied by the new weights.
TEST(LanguageModelTest, NewWeightsChangeWhatIsSentBack) {
  const auto model = TinyModel();
  const std::vector<double> x = model->Start(5), y = model->Start(6);
  const std::vector<Block> blocks = model->Blocks(4);
  const std::vector<double> whole = GradientOf(*model, x, {5, 0});
  Pass pass = model->MakePass();
  pass.draw = {5, 0};
  model->Begin(pass);
  for (const Block& block : blocks) model->Forward(block, x.data() + block.begin, pass);
  model->Turn(pass);
  for (size_t s : {3, 2, 1}) {
    const Block& block = blocks[s];
    if (s == 2) model->Reread(block, y.data() + block.begin, pass);
    std::vector<double> part(static_cast<size_t>(block.size()));
    model->Backward(block, pass, part.data());
    const std::vector<double> expected(whole.begin() + block.begin, whole.begin() + block.end);
    if (s == 3) {
      EXPECT_EQ(part, expected);
    } else {
      EXPECT_NE(part, expected);
    }
    if (s == 2) {
      // Wo comes last: its gradient has what the forward mixed and what came from above.
      const auto out = static_cast<ptrdiff_t>(kTiny.hidden * kTiny.hidden);
      EXPECT_TRUE(std::equal(part.end() - out, part.end(), expected.end() - out));
    }
  }
}

TEST(LanguageModelTest, MicrobatchesAreDrawnBySeedAndNumber) {
  const auto model = TinyModel();
  const auto symbols = [&](const Draw& draw) {
    Pass pass = model->MakePass();
    pass.draw = draw;
    model->Begin(pass);
    return pass.symbols;
  };
  EXPECT_EQ(symbols({1, 2}), symbols({1, 2}));
  EXPECT_NE(symbols({1, 2}), symbols({1, 3}));
  EXPECT_NE(symbols({1, 2}), symbols({2, 2}));
  // What is to be predicted is one character further on.
  const std::vector<uint8_t> drawn = symbols({1, 2});
  const auto tokens = static_cast<ptrdiff_t>(kTiny.tokens());
  for (ptrdiff_t sample = 0; sample < kTiny.samples; ++sample) {
    const auto read = drawn.begin() + sample * kTiny.context;
    EXPECT_TRUE(std::equal(read + 1, read + kTiny.context, read + tokens));
  }
}

// Training and held-out loss are over different text: in one half of which nothing occurs that the
// other has.
TEST(LanguageModelTest, HeldOutTextIsAnother) {
  std::string contents;
  for (int k = 0; k < 900; ++k) contents += "ab";
  for (int k = 0; k < 100; ++k) contents += "cd";
  auto ground = Ground(LanguageModelOf(contents, "halves", kTiny).value(), {.stages = 2}, 0, 400);
  ground.step_size = 0.1;
  const Curve curve = RunNamed("pd", ground);
  EXPECT_LT(curve.last(), 0.2);
  EXPECT_GT(curve.held_out.value(), std::log(4));
}

std::unique_ptr<Objective> Tiny() { return TinyModel(); }

TEST(LanguageModelTest, ReplayEqualsPipeDreamInEveryBit) {
  for (const int stages : {1, 2, 3, 4}) {
    for (const double noise : {0.0, 0.01}) {
      Ground ground(Tiny(), {.stages = stages}, noise, 120);
      ground.step_size = 0.3;
      const Curve pd = RunNamed("pd", ground), replay = RunNamed("rpd-replay", ground);
      EXPECT_EQ(pd.losses, replay.losses) << stages;
      EXPECT_EQ(pd.held_out, replay.held_out) << stages;
      EXPECT_FALSE(pd.diverged);
    }
  }
}

// What a stage reads makes a difference as soon as there are two.
TEST(LanguageModelTest, VersionsDiffer) {
  Ground ground(Tiny(), {.stages = 2}, 0, 60);
  ground.step_size = 0.3;
  std::set<double> losses;
  for (const char* method : {"pd", "pd-nostash", "pd-vertical", "pd-stage-steps", "2bw", "gpipe"}) {
    losses.insert(RunNamed(method, ground).last());
  }
  EXPECT_EQ(losses.size(), 6U);
}

// On one stage nothing is late: all of these are SGD, one microbatch for each update.
TEST(LanguageModelTest, OneStageIsPlainSgd) {
  Ground ground(Tiny(), {.stages = 1}, 0, 60);
  ground.step_size = 0.3;
  std::vector<double> x = ground.objective->Start(kSeed);
  std::vector<double> losses;
  int64_t done = 0;
  for (int point = 0; point < ground.options.points; ++point) {
    for (; 2 * (done + 1) <= PointTick(ground.options, point); ++done) {
      const std::vector<double> gradient = ground.FullGradient(x, done);
      for (size_t k = 0; k < x.size(); ++k) x[k] -= ground.step_size * gradient[k];
    }
    losses.push_back(ground.objective->Loss(x.data()));
  }
  for (const char* method : {"pd", "pd-nostash", "pd-vertical", "gpipe"}) {
    EXPECT_EQ(RunNamed(method, ground).losses, losses) << method;
  }
}

// A batch's gradient is the mean over its microbatches, at the weights the method says.
TEST(LanguageModelTest, BatchesAreMeansOfTheirMicrobatches) {
  Ground ground(Tiny(), {.stages = 2}, 0, 40);
  ground.options.points = 1;
  ground.step_size = 0.3;
  const auto after = [&](int64_t round, int64_t count, bool late) {
    std::vector<double> x = ground.objective->Start(kSeed), previous = x;
    for (int64_t batch = 0; (batch + 1) * round <= ground.options.ticks; ++batch) {
      std::vector<double> mean(x.size());
      for (int64_t m = batch * count; m < (batch + 1) * count; ++m) {
        const std::vector<double> gradient = ground.FullGradient(late ? previous : x, m);
        for (size_t k = 0; k < x.size(); ++k) mean[k] += gradient[k] / static_cast<double>(count);
      }
      previous = x;
      for (size_t k = 0; k < x.size(); ++k) x[k] -= ground.step_size * mean[k];
    }
    return ground.objective->Loss(x.data());
  };
  EXPECT_NEAR(RunNamed("gpipe", ground).last(), after(6, 2, false), 1e-12);
  EXPECT_NEAR(RunNamed("gpipe-4", ground).last(), after(18, 8, false), 1e-12);
  // The last batch of 2bw that is through on both stages ends at tick 38 of 40: nine of 4 ticks,
  // after 2 to fill.
  ground.options.ticks = 39;
  EXPECT_NEAR(RunNamed("2bw", ground).last(), after(4, 2, true), 1e-12);
}

// Replicas see different samples, so averaging them is not the same as one of them.
TEST(LanguageModelTest, ReplicasDiffer) {
  Ground ground(Tiny(), {.stages = 2}, 0, 40);
  ground.options.points = 1;
  ground.options.every = 2;
  ground.step_size = 0.3;
  std::vector<double> x = ground.objective->Start(kSeed);
  for (int64_t round = 0; round < 5; ++round) {
    std::vector<double> sum(x.size());
    for (int64_t replica = 0; replica < 2; ++replica) {
      std::vector<double> y = x;
      for (int64_t h = 0; h < 2; ++h) {
        const std::vector<double> gradient = ground.FullGradient(y, (round * 2 + h) * 2 + replica);
        for (size_t k = 0; k < y.size(); ++k) y[k] -= ground.step_size * gradient[k];
      }
      for (size_t k = 0; k < y.size(); ++k) sum[k] += y[k] / 2;
    }
    x = sum;
  }
  EXPECT_NEAR(RunNamed("local-plain", ground).last(), ground.objective->Loss(x.data()), 1e-12);
}

TEST(LanguageModelTest, EveryMethodLearns) {
  const auto guess = std::log(20.0);
  for (const Method& method : Methods()) {
    Ground ground(MakeProblem("lm", {}).value(), {.stages = 2}, 0, 400);
    ground.options.points = 1;
    ground.step_size = 0.4;
    const Curve curve = method.run(ground.trial());
    EXPECT_NEAR(curve.first, guess, 0.2);
    // Those that update once for eight microbatches, or average, have taken few steps.
    EXPECT_LT(curve.last(), guess - 0.4) << method.name;
    EXPECT_LT(curve.held_out.value(), guess - 0.4) << method.name;
  }
}

TEST(LanguageModelTest, RefusesWhatItCannotBe) {
  const auto refused = [](const ObjectiveOptions& options) {
    const auto made = MakeProblem("lm", options);
    EXPECT_FALSE(made.ok());
    return made.ok() ? "" : made.error().where;
  };
  EXPECT_EQ(refused({.network = {.layers = 0}}), "--layers");
  EXPECT_EQ(refused({.network = {.hidden = 12}}), "--hidden");
  EXPECT_EQ(refused({.network = {.context = 0}}), "--context");
  EXPECT_EQ(refused({.network = {.samples = 0}}), "--samples");
  EXPECT_EQ(refused({.dimension = 100}), "--dimension");
  EXPECT_EQ(refused({.data = "/nonexistent"}), "/nonexistent");
  const auto other = MakeProblem("quadratic", {.network = {.layers = 2}});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().where, "--layers");
}

TEST(TextSourceTest, SymbolsAreTheBytesThatOccur) {
  const TextSource text = TextSource::Of("banana bandana", "text", 1).value();
  EXPECT_EQ(text.alphabet, 5);  // space a b d n
  EXPECT_EQ(std::vector<uint8_t>(text.symbols.begin(), text.symbols.begin() + 7),
            (std::vector<uint8_t>{2, 1, 4, 1, 4, 1, 0}));
  EXPECT_EQ(text.training, 13);
}

TEST(TextSourceTest, RefusesTextsThatAreTooShort) {
  for (const std::string& contents : {std::string(), std::string("abc"), std::string(59, 'x')}) {
    const auto text = TextSource::Of(contents, "a.txt", 6);
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.error().kind, ErrorKind::kBadInput);
    EXPECT_NE(text.error().ToString().find("a.txt"), std::string::npos);
  }
  const auto same = TextSource::Of(std::string(60, 'x'), "a.txt", 6);
  ASSERT_FALSE(same.ok());
  EXPECT_NE(same.error().ToString().find("the same"), std::string::npos);
}

TEST(TextSourceTest, MadeTextIsAlwaysTheSame) {
  const std::string text = MadeText(20000);
  EXPECT_EQ(text, MadeText(20000));
  EXPECT_EQ(text.substr(0, 500), MadeText(500));
  EXPECT_EQ(text.substr(0, 32), "durso pol gog kelil ladno bu fa.");
  EXPECT_EQ(std::set<char>(text.begin(), text.end()).size(), 20U);
}

TEST(SmallMatrixTest, ProductsOfAnyShape) {
  for (const int64_t rows : {1, 3, 4, 9}) {
    for (const int64_t inner : {1, 5}) {
      for (const int64_t columns : {1, 2, 7, 8, 13, 24}) {
        std::vector<double> a(static_cast<size_t>(rows * inner)), b, c;
        std::vector<double> turned(a.size());
        for (size_t k = 0; k < a.size(); ++k) a[k] = static_cast<double>(k % 7) - 3;
        for (int64_t k = 0; k < inner * columns; ++k) b.push_back(static_cast<double>(k % 5) - 1);
        c.assign(static_cast<size_t>(rows * (columns + 1)), 99.0);
        std::vector<double> d = c;
        Multiply({rows, inner, columns}, {a.data(), inner, 1}, b.data(), columns, c.data(),
                 columns + 1);
        Transpose(rows, inner, a.data(), inner, turned.data());
        Multiply({rows, inner, columns}, {turned.data(), 1, rows}, b.data(), columns, d.data(),
                 columns + 1);
        EXPECT_EQ(c, d);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t k = 0; k < columns; ++k) {
            double sum = 0;
            for (int64_t i = 0; i < inner; ++i) {
              sum +=
                  a[static_cast<size_t>(r * inner + i)] * b[static_cast<size_t>(i * columns + k)];
            }
            EXPECT_EQ(c[static_cast<size_t>(r * (columns + 1) + k)], sum);
          }
          EXPECT_EQ(c[static_cast<size_t>(r * (columns + 1) + columns)], 99.0);
        }
      }
    }
  }
}

TEST(TargetTest, TicksAreOnTheLineBetweenPoints) {
  TrialOptions options;
  options.ticks = 100;
  options.points = 4;
  Curve curve;
  curve.first = 8;
  curve.losses = {4, 5, 2, 3};
  EXPECT_EQ(TicksToReach(options, curve, 8), 0);
  EXPECT_EQ(TicksToReach(options, curve, 6), 12.5);
  EXPECT_EQ(TicksToReach(options, curve, 4), 25);
  EXPECT_EQ(TicksToReach(options, curve, 3.5), 62.5);
  EXPECT_TRUE(std::isinf(TicksToReach(options, curve, 1)));
}

}  // namespace
}  // namespace heddle
