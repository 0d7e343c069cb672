// What is printed arrives, or the command fails: a message on standard error and an exit code.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/json_field.h"
#include "run_heddle.h"
#include "support/places.h"

namespace heddle {
namespace {

// One line of each command that prints by itself, `plan` standing for a plan's path.
std::vector<std::string> PrintingLines(const std::string& plan) {
  const std::string on = " --model tiny-mlp --batch 8 --cluster " + ClusterFile("laptop");
  return {"plan --strategy 1f1b" + on,
          "compare" + on,
          "explain " + plan,
          "simulate " + plan,
          "check " + plan,
          "lower " + plan,
          "lab delay --stages 2",
          "lab race --stages 2 --methods pd --ticks 100 --points 2 --dimension 8 --step-sizes 3",
          "lab theory --stages 2 --dimension 8 --ticks 100",
          "share --trace examples/09-trace.csv --devices 8",
          "models",
          "devices",
          "devices a100-80gb",
          "help",
          "help plan",
          "plan --help",
          "--version"};
}

class OutputTest : public testing::Test {
 protected:
  OutputTest() {
    const Ran ran = RunHeddle("plan --strategy 1f1b --model tiny-mlp --batch 8 --cluster " +
                              ClusterFile("laptop") + " -o " + plan_.path());
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
  }

  void ExpectToldBy(const std::string& redirection, const std::string& says) const {
    for (const std::string& line : PrintingLines(plan_.path())) {
      for (const char* json : {"", " --json"}) {
        const Ran ran = RunHeddle(line + json + redirection);
        EXPECT_EQ(ran.exit_code, 4) << line << json << "\n" << ran.err;
        EXPECT_NE(ran.err.find("standard output: cannot write: " + says), std::string::npos)
            << line << json << "\n"
            << ran.err;
      }
    }
  }

  TemporaryFile plan_;
};

TEST_F(OutputTest, AFullDiskIsToldByEveryCommand) {
  ExpectToldBy(" >/dev/full", "No space left on device");
  EXPECT_EQ(RunHeddle("demo --only-plan >/dev/full").exit_code, 4);
}

TEST_F(OutputTest, AClosedOutputIsToldByEveryCommand) {
  ExpectToldBy(" >&-", "Bad file descriptor");
}

// With standard output closed the next file opened has its number.
TEST_F(OutputTest, NothingIsPrintedIntoAFileInsteadOfAClosedOutput) {
  const TemporaryFile file;
  const Ran ran = RunHeddle("lower " + plan_.path() + " -o " + file.path() + " >&- 2>&-");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_TRUE(ReadFile(file.path()).value().starts_with("heddle-program 1"));
}

// How `heddle models` ends whose reader has left.
int StatusWithoutReader(void (*on_broken_pipe)(int)) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  close(ends[0]);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    signal(SIGPIPE, on_broken_pipe);
    execl(HeddleBinary().c_str(), "heddle", "models", nullptr);
    _exit(127);
  }
  close(ends[1]);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// As other programs do: whoever pipes into head has what they want.
TEST_F(OutputTest, AReaderThatLeavesEndsItQuietly) {
  const int status = StatusWithoutReader(SIG_DFL);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGPIPE);
}

TEST_F(OutputTest, AReaderThatLeavesIsAFailureWhereTheSignalIsIgnored) {
  const int status = StatusWithoutReader(SIG_IGN);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 4);
}

TEST_F(OutputTest, AFileThatCannotBeWrittenIsTold) {
  for (const std::string& line :
       {"lower " + plan_.path() + " -o /dev/full",
        "simulate " + plan_.path() + " --trace /dev/full",
        "plan --strategy 1f1b --model tiny-mlp --batch 8 -o /dev/full --cluster " +
            ClusterFile("laptop")}) {
    const Ran ran = RunHeddle(line);
    EXPECT_EQ(ran.exit_code, 4) << line << "\n" << ran.err;
    EXPECT_NE(ran.err.find("/dev/full"), std::string::npos) << ran.err;
  }
}

TEST_F(OutputTest, AnErrorKeepsItsCodeWhenItsJsonCannotBePrinted) {
  const Ran ran = RunHeddle("explain --json /nonexistent.json >/dev/full");
  EXPECT_EQ(ran.exit_code, 4);
  EXPECT_NE(ran.err.find("/nonexistent.json"), std::string::npos) << ran.err;
}

TEST_F(OutputTest, LowerPrintsItsJsonAlsoWhenItWritesAFile) {
  const TemporaryFile file;
  const Ran ran = RunHeddle("lower --json " + plan_.path() + " -o " + file.path());
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ParseJson(ran.out, "lower").value()["schema"], "heddle.program/1");
}

}  // namespace
}  // namespace heddle
