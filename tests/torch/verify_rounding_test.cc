// What verify calls equal: rounding alone is, however large it looks beside a tensor that is itself
// rounding; a Program that is wrong by little is not.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "choose/planners.h"
#include "run/torch/reference.h"
#include "torch/spmd_fixture.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

constexpr char kGpt[] = "tiny-gpt?layers=4&hidden=16&seq=8&vocab=32";

std::vector<Instruction>& BodyOf(DeviceProgram& device) {
  return device.sections[static_cast<size_t>(Section::kBody)];
}

Verification Verified(const Program& program, const Graph& graph) {
  const Result<Verification> verification = VerifyProgram(program, graph, {});
  EXPECT_TRUE(verification.ok()) << verification.error().ToString();
  return verification.ok() ? verification.value() : Verification{};
}

// A bias that every class has alike changes no probability: its gradient is a sum that cancels, and
// what is left is rounding, another in every order.
Graph WithAnIdleBias(Optimizer optimizer, double clip) {
  constexpr int64_t kWords = 12, kPositions = 4, kHidden = 6;
  GraphBuilder g(12, DType::kF64);
  const TensorId tokens = g.Input("tokens", DType::kI64, {kPositions});
  g.BeginLayer("embed");
  TensorId x = g.Embedding("words", tokens, g.Parameter("table", {kWords, kHidden}, 0, 0.5));
  g.BeginLayer("out");
  x = g.Einsum("fc", "bsh,hv->bsv", x, g.Parameter("fc.w", {kHidden, kWords}, 0, 0.4));
  x = g.BiasAdd("idle.add", "bsv,s->bsv", x, g.Parameter("idle", {kPositions}, 0, 0));
  g.CrossEntropy("xent", x, g.Input("targets", DType::kI64, {kPositions}));
  AddTraining(g, {optimizer, clip});
  return g.Finish().value();
}

double Largest(const at::Tensor& tensor) { return tensor.abs().max().item<double>(); }

TEST(RoundingTest, ATensorMovesAsFarAsItsArithmeticLetsIt) {
  const Graph graph = WithAnIdleBias(Optimizer::kAdam, 0);
  const Trained plain = TrainDirectly(graph, {}, 3);
  Rounding first(graph, {}, {.draw = 0}), again(graph, {}, {.draw = 0}), other(graph, {}, {1});
  const Trained off = TrainDirectly(graph, {}, 3, {}, {}, &first);
  const auto moved = [&](const std::string& name) {
    const at::Tensor& from = plain.parameters.at(name);
    return Largest(off.parameters.at(name) - from) / Largest(from);
  };
  for (const char* name : {"table", "fc.w"}) {
    EXPECT_GT(moved(name), 1e-17) << name;
    EXPECT_LT(moved(name), 1e-13) << name;
  }
  EXPECT_GT(moved("idle"), 1e-3);
  EXPECT_NE(off.losses, plain.losses);
  EXPECT_EQ(TrainDirectly(graph, {}, 3, {}, {}, &again).losses, off.losses);
  EXPECT_NE(TrainDirectly(graph, {}, 3, {}, {}, &other).losses, off.losses);
}

TEST(RoundingTest, ParametersThatMoveByRoundingAloneAreEqual) {
  for (const Optimizer optimizer : kOptimizers) {
    for (const double clip : {0.0, 0.1}) {
      const Graph graph = WithAnIdleBias(optimizer, clip);
      const SpmdPlan plan = DataParallel(graph, FlatMesh(3), {0.5, 0.3, 0.2});
      const Verification verification = Verified(Lowered(plan, graph, "idle", 2), graph);
      EXPECT_TRUE(verification.ok) << NameOf(optimizer) << ": " << verification.worst;
      EXPECT_GT(verification.rounding_alone, 0);
      EXPECT_LT(verification.max_parameter_error, 1e-12);
    }
  }
}

// Beside them, an error is as visible as ever.
TEST(RoundingTest, AForgottenSumIsNoticedBesideRounding) {
  const Graph graph = WithAnIdleBias(Optimizer::kAdam, 0);
  Program program = Lowered(DataParallel(graph, FlatMesh(3), {0.5, 0.3, 0.2}), graph, "idle");
  for (DeviceProgram& device : program.devices) {
    std::erase_if(BodyOf(device),
                  [](const Instruction& in) { return in.code == OpCode::kCollective; });
  }
  const Result<Verification> verification = VerifyProgram(program, graph, {});
  EXPECT_TRUE(!verification.ok() || !verification.value().ok);
}

// --- Programs that are wrong by little
// ------------------------------------------------------------

struct Rule {
  Optimizer optimizer;
  double clip;
};

void PrintTo(const Rule& rule, std::ostream* out) {
  *out << NameOf(rule.optimizer) << (rule.clip > 0 ? ", clipped" : "");
}

class SmallMutationTest : public testing::TestWithParam<Rule> {
 protected:
  Planning Gpt(int64_t microbatches = 4) const {
    return MakePlanning(kGpt, 16, GetParam().optimizer, microbatches, GetParam().clip);
  }
  // Two replicas of everything, four microbatches.
  static Program Replicated(const Planning& planning) {
    const Plan plan =
        HandMade(planning, 4, {{{Stage({{0, 5}}, {"a:0", "a:1"}, {1, 1}, "(F B)*4")}}});
    return LowerPlan(plan, planning.graph).value();
  }
  static void ExpectNoticed(const Program& program, const Planning& planning) {
    const Verification verification = Verified(program, planning.graph);
    EXPECT_FALSE(verification.ok) << verification.worst;
    EXPECT_GT(verification.share, 1);
  }
};

TEST_P(SmallMutationTest, AMicrobatchTwiceAndAnotherNever) {
  const Planning planning = Gpt();
  Program program = Replicated(planning);
  ASSERT_TRUE(Verified(program, planning.graph).ok);
  auto& body = BodyOf(program.devices[1]);
  const auto third = std::find_if(body.begin(), body.end(), [](const Instruction& in) {
    return in.code == OpCode::kCompute && in.microbatch.present() && in.microbatch.value(0) == 2;
  });
  ASSERT_NE(third, body.end());
  const auto microbatch = third->microbatch;
  for (Instruction& in : body) {
    if (in.microbatch.present() && in.microbatch.value(0) == 3) in.microbatch = microbatch;
  }
  ExpectNoticed(program, planning);
}

TEST_P(SmallMutationTest, ASampleTwiceAndAnotherNever) {
  const Planning planning = Gpt();
  Program program = Replicated(planning);
  for (Segment& segment : program.segments) {
    if (segment.rows == Range{2, 4}) segment.rows = {1, 3};
  }
  ExpectNoticed(program, planning);
}

TEST_P(SmallMutationTest, AnUpdateForgotten) {
  const Planning planning = Gpt();
  Program program = Replicated(planning);
  for (Segment& segment : program.segments) {
    if (segment.phase != SegmentPhase::kUpdate || segment.ops.size() < 2) continue;
    segment.ops.pop_back();
    ExpectNoticed(program, planning);
    return;
  }
  FAIL() << "no update of several parameters";
}

INSTANTIATE_TEST_SUITE_P(Rules, SmallMutationTest,
                         testing::Values(Rule{Optimizer::kSgd, 0}, Rule{Optimizer::kMomentum, 0.05},
                                         Rule{Optimizer::kAdam, 0}, Rule{Optimizer::kAdamW, 0.05}),
                         [](const auto& rule) {
                           return std::string(NameOf(rule.param.optimizer));
                         });

// One tensor's sum on a server, too large by one part in 10^6, and by less than any tolerance that
// a model of many layers would have needed: one in 10^11.
TEST(SmallScaleTest, AFactorOfAlmostOneIsNoticed) {
  for (const Optimizer optimizer : kOptimizers) {
    PlanRequest options;
    options.model = kGpt;
    options.batch = 13;
    options.optimizer = optimizer;
    options.sync = GradientSync::kServers;
    const Planning planning = Planning::Make(options, Mixed4(), nullptr).value();
    const Program program = LowerPlan(MakePlan("dp", planning).value(), planning.graph).value();
    ASSERT_TRUE(Verified(program, planning.graph).ok);
    for (const double more : {1e-6, 1e-9, 1e-11}) {
      Program mutant = program;
      for (Segment& segment : mutant.segments) {
        if (segment.name.starts_with("S")) segment.scale = 1 + more;
      }
      EXPECT_FALSE(Verified(mutant, planning.graph).ok) << NameOf(optimizer) << " " << more;
    }
  }
}

// An average that is off by one part in 10^10.
TEST(SmallScaleTest, AnAverageThatIsNotQuiteOneIsNoticed) {
  const Planning planning =
      MakePlanning("tiny-gpt?layers=4&hidden=16&seq=8&vocab=32&tied=0", 4, Optimizer::kAdamW);
  const int last = planning.chain.size() - 1;
  Plan plan = HandMade(
      planning, 1,
      {{{Stage({{0, last}}, {"a:0"}, {1}, "F B")}}, {{Stage({{0, last}}, {"b:0"}, {1}, "F B")}}});
  plan.local = LocalPlan{{3, 1}};
  Program program = LowerPlan(plan, planning.graph).value();
  VerifyOptions options;
  options.local = plan.local;
  const Verification equal = VerifyProgram(program, planning.graph, options).value();
  EXPECT_TRUE(equal.ok) << equal.worst;
  for (Segment& segment : program.segments) {
    if (segment.scale != 1) segment.scale *= 1 + 1e-10;
  }
  EXPECT_FALSE(VerifyProgram(program, planning.graph, options).value().ok);
}

// --- Single precision: other kernels, convolutions above all
// ---------------------------------------

TEST(VerifySingleTest, TheMeasureIsThatOfTheType) {
  for (const char* model :
       {kGpt, "vgg19?width=2&hidden=8&image=32&classes=5",
        "resnet152?width=2&image=33&classes=5&blocks1=1&blocks2=1&blocks3=1&blocks4=1"}) {
    const Planning planning = MakePlanning(model, 13, Optimizer::kAdamW, 2, 0.05);
    for (const char* strategy : {"dp", "1f1b", "zero"}) {
      VerifyOptions options;
      options.train.dtype = DType::kF32;
      Program program = LowerPlan(MakePlan(strategy, planning).value(), planning.graph).value();
      const Verification single = VerifyProgram(program, planning.graph, options).value();
      EXPECT_TRUE(single.ok) << strategy << " " << model << ": " << single.worst;
      EXPECT_GT(single.max_gradient_error, 1e-9) << "as if it had been double";
      for (Segment& segment : program.segments) {
        if (segment.phase == SegmentPhase::kUpdate && segment.ops.size() > 1)
          segment.ops.pop_back();
      }
      EXPECT_FALSE(VerifyProgram(program, planning.graph, options).value().ok) << strategy;
    }
  }
}

// --- Gradients that travel as f16
// -----------------------------------------------------------------

TEST(HalfVerifyTest, EqualUpToElevenBitsAndNoMore) {
  for (const Optimizer optimizer : {Optimizer::kSgd, Optimizer::kAdam}) {
    for (const char* model : {"tiny-mlp?layers=5", kGpt}) {
      const Planning planning = MakePlanning(model, 64, optimizer);
      Plan plan = MakePlan("dp", planning).value();
      plan.request.compress = true;
      Program program = LowerPlan(plan, planning.graph).value();
      const Verification verification = Verified(program, planning.graph);
      EXPECT_TRUE(verification.ok) << model << ": " << verification.worst;
      EXPECT_GT(verification.max_gradient_error, 1e-6);  // it did travel so
      for (Segment& segment : program.segments) {
        if (segment.rows.begin == 0 || segment.rows.size() == 0) continue;
        segment.rows = {segment.rows.begin - 1, segment.rows.end - 1};
      }
      EXPECT_FALSE(Verified(program, planning.graph).ok) << model;
    }
  }
}

}  // namespace
}  // namespace heddle
