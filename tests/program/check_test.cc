#include "program/check/check.h"

#include <set>

#include "model/zoo.h"
#include "mutant.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(CheckTest, GoldenProgramsAreWellFormed) {
  for (const std::string& name : GoldenPrograms()) {
    EXPECT_EQ(FindingsOf(CheckProgram(GoldenProgram(name))), "") << name;
  }
}

struct Fault {
  FindingKind kind;
  Mutant mutant;
  CheckOptions options;
};

// One of every kind; the other files of this folder have more of each.
std::vector<Fault> OneOfEach() {
  const Mutant pipeline("1-1f1b"), async("4-async-versions"), spmd("3-spmd-matmul"),
      shares("2-uneven-shares");
  return {
      {FindingKind::kUnmatchedSend, Mutant(pipeline).On(1, "recv x1#0 from 0", ""), {}},
      {FindingKind::kUnmatchedRecv, Mutant(pipeline).On(0, "send x1#0 to 1", ""), {}},
      {FindingKind::kMessageMismatch,
       Mutant(pipeline)
           .On(0, "send x1#0 to 1", "send x1#0 to 1 tag 9")
           .On(1, "recv x1#1 from 0 tag 1", "recv x1#1 from 0 tag 9"),
       {}},
      {FindingKind::kDeadlock,
       Mutant(pipeline)
           .On(0, "recv d1#0 from 1", "recv d1#0 from 1 on compute")
           .On(1, "recv x1#3 from 0 tag 3", "recv x1#3 from 0 tag 3 on compute"),
       {}},
      {FindingKind::kReadBeforeWrite, Mutant(async).On(1, "compute B1 #i+1", ""), {}},
      {FindingKind::kUseAfterFree, Mutant(shares).On(2, "free d1#0 d1#1", "free d1#0 d1#0"), {}},
      {FindingKind::kStaleVersion, Mutant(async).On(0, "free w0@i", "free w0@i w0@i+1"), {}},
      {FindingKind::kOverwrite,
       Mutant(pipeline).On(0, "compute F0 #0", "compute F0 #0\ncompute F0 #0"),
       {}},
      {FindingKind::kLeak, Mutant(async).On(0, "free w0@i", ""), {}},
      {FindingKind::kLayerMissing, Mutant(pipeline).Replace("layers 4\n", "layers 6\n"), {}},
      {FindingKind::kLayerTwice, Mutant(spmd).Replace(" joint", ""), {}},
      {FindingKind::kUpdateMissing, Mutant(pipeline).Replace("updates 1", "updates 2"), {}},
      {FindingKind::kCollectiveDisagrees,
       Mutant(shares).On(1, "all-reduce g0 over s0 ring", ""),
       {}},
      {FindingKind::kMemory, pipeline, {nullptr, std::vector<Bytes>(4, Bytes{1000})}},
      {FindingKind::kBadSegment, Mutant(pipeline).On(0, "compute F0 #0", "compute F0"), {}},
  };
}

TEST(CheckTest, EveryKindOfFaultIsFound) {
  std::set<FindingKind> planted;
  for (const Fault& fault : OneOfEach()) {
    const Verdict verdict = fault.mutant.Check(fault.options);
    std::set<FindingKind> found;
    for (const Finding& finding : verdict.findings) found.insert(finding.kind);
    EXPECT_TRUE(found.contains(fault.kind)) << NameOf(fault.kind) << " planted, found:\n"
                                            << FindingsOf(verdict);
    planted.insert(fault.kind);
  }
  EXPECT_EQ(planted.size(), static_cast<size_t>(FindingKind::kBadSegment) + 1);
}

TEST(CheckTest, ComputeLacksAnIndex) {
  EXPECT_THAT(Mutant("1-1f1b").On(2, "compute F2 #1", "compute F2").Findings(),
              HasSubstr("bad segment: device 2 (a:2), body 0, instruction 5: compute F2 lacks an "
                        "index (# ^ @) that the segment's ports need"));
  EXPECT_THAT(Mutant("5-local-sgd").On(1, "compute half ^1", "compute half").Findings(),
              HasSubstr("bad segment: device 1 (a:1), body 0, instruction 6: compute half lacks"));
  EXPECT_THAT(
      Mutant("4-async-versions").On(0, "compute U0 #0 @0", "compute U0 #0", "prologue").Findings(),
      HasSubstr("bad segment: device 0 (a:0), prologue, instruction 6: compute U0 #0"));
}

// A model of one product, as golden 3 has it: x [4,6] times w [6,8].
TEST(CheckTest, SegmentsNameOpsOfTheModel) {
  const Graph graph = BuildModel("mlp?layers=1&inputs=6&outputs=8", {.batch = 4}).value();
  const CheckOptions options{&graph, {}};
  EXPECT_THAT(Mutant("3-spmd-matmul").Replace("ops fc0[n=0:5]", "ops fc7[n=0:5]").Findings(options),
              HasSubstr("bad segment: segment mm.0: the model has no op fc7"));
  EXPECT_THAT(Mutant("3-spmd-matmul").Replace("ops fc0[n=5:8]", "ops fc0[n=5:9]").Findings(options),
              HasSubstr("bad segment: segment mm.1: fc0 has no shard n=5:9"));
  EXPECT_THAT(Mutant("3-spmd-matmul").Replace("ops fc0[n=5:8]", "ops fc0[q=5:8]").Findings(options),
              HasSubstr("bad segment: segment mm.1: fc0 has no shard q=5:8"));
}

// The golden computes the product and nothing else of that model; the product itself is whole.
TEST(CheckTest, ShardsTileTheOp) {
  const Graph graph = BuildModel("mlp?layers=1&inputs=6&outputs=8", {.batch = 4}).value();
  const CheckOptions options{&graph, {}};
  const std::string product = "layer fc0 (op fc0) of microbatch 0";
  EXPECT_THAT(Mutant("3-spmd-matmul").Findings(options), Not(HasSubstr(product)));
  EXPECT_THAT(Mutant("3-spmd-matmul").Replace("ops fc0[n=5:8]", "ops fc0[n=5:7]").Findings(options),
              HasSubstr("layer missing: " + product));
  EXPECT_THAT(Mutant("3-spmd-matmul").Replace("ops fc0[n=5:8]", "ops fc0[n=4:8]").Findings(options),
              HasSubstr("layer twice: " + product));
}

TEST(CheckTest, AtMostTwentyFindings) {
  std::string sends;
  for (int tag = 10; tag < 40; ++tag) sends += "send x1#0 to 1 tag " + std::to_string(tag) + "\n";
  const Mutant m = Mutant("1-1f1b").On(0, "compute F0 #1", sends + "compute F0 #1");
  EXPECT_EQ(m.Check().findings.size(), Verdict::kMostFindings);
}

}  // namespace
}  // namespace heddle
