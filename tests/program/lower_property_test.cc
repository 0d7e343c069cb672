// Random plans become good Programs, and every instruction of them matters.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/json_field.h"
#include "random_plan.h"

namespace heddle {
namespace {

RC_GTEST_PROP(LowerProperty, RandomPlansBecomeGoodPrograms, ()) {
  const RandomPlan random(*rc::gen::arbitrary<uint32_t>());
  RC_LOG() << PlanToJson(random.plan(), random.graph())["pipelines"].dump(1);
  RC_ASSERT(FaultsOf(random.plan(), random.graph()) == "");
}

RC_GTEST_PROP(LowerProperty, RandomServedPlansBecomeGoodPrograms, ()) {
  const RandomPlan random(*rc::gen::arbitrary<uint32_t>(), PlanKind::kServed);
  RC_ASSERT(FaultsOf(random.plan(), random.graph()) == "");
}

RC_GTEST_PROP(LowerProperty, RandomAsynchronousPlansBecomeGoodPrograms, ()) {
  const RandomPlan random(*rc::gen::arbitrary<uint32_t>(), PlanKind::kAsync);
  RC_ASSERT(FaultsOf(random.plan(), random.graph()) == "");
}

RC_GTEST_PROP(LowerProperty, RandomLocalPlansBecomeGoodPrograms, ()) {
  const RandomPlan random(*rc::gen::arbitrary<uint32_t>(), PlanKind::kLocal);
  RC_ASSERT(FaultsOf(random.plan(), random.graph()) == "");
}

// Receives posted at the last moment or all at once, buffers freed soon or late: none of it can
// make a Program wrong.
RC_GTEST_PROP(LowerProperty, OptionsDoNotMatter, ()) {
  const RandomPlan random(*rc::gen::arbitrary<uint32_t>());
  const LowerOptions options{.receive_ahead = *rc::gen::inRange(0, 9),
                             .free_behind = *rc::gen::inRange(0, 9)};
  const Program program = LowerPlan(random.plan(), random.graph(), options).value();
  RC_ASSERT(FindingsOf(CheckProgram(program, {&random.graph(), {}})) == "");
}

RC_GTEST_PROP(LowerProperty, NoInstructionCanBeLeftOut, ()) {
  const RandomPlan random(*rc::gen::arbitrary<uint32_t>());
  Program program = LowerPlan(random.plan(), random.graph()).value();
  const auto device = *rc::gen::inRange<size_t>(0, program.devices.size());
  auto& body = program.devices[device].sections[static_cast<size_t>(Section::kBody)];
  RC_PRE(!body.empty());
  const auto at = *rc::gen::inRange<size_t>(0, body.size());
  RC_LOG() << "without: " << PrintInstruction(program, program.devices[device], body[at]) << "\n"
           << PrintProgram(program);
  body.erase(body.begin() + static_cast<ptrdiff_t>(at));
  RC_ASSERT(!CheckProgram(program, {&random.graph(), {}}).ok());
}

// The order of rows, microbatches and devices in the text is the order of the plan: the same plan
// gives the same Program.
RC_GTEST_PROP(LowerProperty, LoweringIsDeterministic, ()) {
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  const RandomPlan one(seed), two(seed);
  RC_ASSERT(PrintProgram(LowerPlan(one.plan(), one.graph()).value()) ==
            PrintProgram(LowerPlan(two.plan(), two.graph()).value()));
}

}  // namespace
}  // namespace heddle
