// Programs that are well formed and train wrongly.
#include "mutant.h"
#include "support/program_mutants.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr char kReduce0[] = "all-reduce g0 over s0 ring";
constexpr char kReduce1[] = "all-reduce g1 over s1 ring";

TEST(ProofTest, NoAllReduceAtAll) {
  EXPECT_THAT(Mutant("2-uneven-shares")
                  .On(0, kReduce0, "")
                  .On(1, kReduce0, "")
                  .On(2, kReduce1, "")
                  .On(3, kReduce1, "")
                  .Findings(),
              HasSubstr("wrong gradient: g1 on device 2 lacks samples 2..3 when U1 uses it"));
}

TEST(ProofTest, OneGradientLeftOutOfEveryAllReduce) {
  EXPECT_THAT(Mutant("2-uneven-shares").On(0, kReduce0, "").On(1, kReduce0, "").Findings(),
              HasSubstr("wrong gradient: g0 on device 0 lacks samples 3..3 when U0 uses it"));
}

TEST(ProofTest, AnAllReduceTwice) {
  const std::string twice = std::string(kReduce0) + "\n" + kReduce0;
  EXPECT_THAT(Mutant("2-uneven-shares").On(0, kReduce0, twice).On(1, kReduce0, twice).Findings(),
              HasSubstr("wrong gradient: g0 on device 0 has samples 0..7 2 times when U0 uses it"));
}

TEST(ProofTest, AMicrobatchTwice) {
  // The second microbatch's gradient takes the place of the first's.
  EXPECT_THAT(Mutant("1-1f1b").Replace("compute B3 #1 acc", "compute B3 #0 acc").Findings(),
              testing::Not(""));
}

TEST(ProofTest, AnUpdateThatDoesNothing) {
  EXPECT_THAT(Mutant("2-uneven-shares").Replace("  changes w0\n", "  reads w0\n").Findings(),
              HasSubstr("update missing"));
}

TEST(ProofTest, AnUpdateBeforeTheLastGradient) {
  EXPECT_THAT(Mutant("2-uneven-shares")
                  .On(0, "compute U0", "")
                  .On(0, kReduce0, "compute U0")
                  .On(1, kReduce0, "")
                  .Findings(),
              HasSubstr("wrong gradient: g0 on device 0 lacks samples 3..3 when U0 uses it"));
}

TEST(ProofTest, TheWrongReplicasMeet) {
  EXPECT_THAT(Mutant("2-uneven-shares")
                  .Replace("group s0 0 1", "group s0 0 1\ngroup one 0\ngroup two 1")
                  .On(0, kReduce0, "all-reduce g0 over one ring")
                  .On(1, kReduce0, "all-reduce g0 over two ring")
                  .Findings(),
              HasSubstr("wrong gradient: g0 on device 0 lacks samples 3..3"));
}

TEST(ProofTest, AverageWithOtherWeights) {
  EXPECT_THAT(Mutant("5-local-sgd").Replace("scale 0.5", "scale 0.25").Findings(),
              HasSubstr("wrong version: w on device 0 is not whole at the end, and should be the "
                        "average of the replicas"));
  EXPECT_THAT(Mutant("5-local-sgd").Replace("local 2 2", "local 1 3").Findings(),
              HasSubstr("wrong version"));
}

TEST(ProofTest, ReplicasThatAreNotAveraged) {
  EXPECT_THAT(Mutant("5-local-sgd")
                  .On(0, "all-reduce w^0 over all ring", "")
                  .On(1, "all-reduce w^1 over all ring", "")
                  .Findings(),
              HasSubstr("wrong version: w on device 0"));
}

TEST(ProofTest, ALocalUpdateThatIsMissing) {
  EXPECT_THAT(Mutant("5-local-sgd").On(0, "compute U ^0", "free g^0").Findings(), testing::Not(""));
}

TEST(ProofTest, AStaleRead) {
  // The rule says that backward reads what its forward read: here it reads the newest.
  EXPECT_THAT(
      Mutant("4-async-versions").Replace("update async stash", "update async none").Findings(),
      HasSubstr("wrong version: w0 on device 0 is version 0 when B0 reads it for the step "
                "of samples 2..3, and should be version 1"));
  EXPECT_THAT(Mutant("4-async-versions").Replace("update async stash", "update flush").Findings(),
              HasSubstr("wrong version: w0 on device 0 is version 0 when F0 reads it"));
}

// What is left of all single changes is the order in which independent things are posted or
// updated.
TEST(ProofTest, EveryChangeOfAGoldenProgramIsRefused) {
  for (const std::string& name : GoldenPrograms()) {
    int refused = 0;
    ForEachMutant(GoldenProgram(name), [&](const std::string& what, const Program& mutant) {
      if (!CheckProgram(mutant).ok()) {
        ++refused;
      } else {
        EXPECT_THAT(what, testing::EndsWith(" exchanged with the next")) << name;
      }
    });
    EXPECT_GT(refused, 10) << name;
  }
}

TEST(ProofTest, WithoutARuleNothingIsSaid) {
  EXPECT_EQ(Mutant("4-async-versions").Replace("update async stash\n", "").Findings(),
            "not proven: its header does not state which versions are read (update)\n");
  EXPECT_EQ(Mutant("5-local-sgd").Replace("update local 2 2\n", "").Findings(),
            "not proven: its header does not state an average (update)\n");
}

TEST(ProofTest, RulesAreReadAndPrinted) {
  for (const char* rule :
       {"flush", "async stash", "async vertical", "async none", "async 2bw", "local 3 1"}) {
    const std::string text =
        Mutant("1-1f1b")
            .Replace("updates 1\n", "updates 1\nupdate " + std::string(rule) + "\n")
            .text();
    const std::string printed = PrintProgram(ParseProgram(text, "text").value());
    EXPECT_THAT(printed, HasSubstr("updates 1\nupdate " + std::string(rule) + "\n"));
    EXPECT_EQ(PrintProgram(ParseProgram(printed, "printed").value()), printed);
  }
  EXPECT_THAT(Mutant("1-1f1b").Replace("updates 1\n", "updates 1\nupdate late\n").ParseError(),
              HasSubstr("unknown rule \"late\""));
  EXPECT_THAT(Mutant("1-1f1b").Replace("updates 1\n", "updates 1\nupdate local\n").ParseError(),
              HasSubstr("local without the updates of each replica"));
}

}  // namespace
}  // namespace heddle
