#include "base/directory_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(DirectoryClaim, TheSecondIsToldWhoHoldsIt) {
  const ScratchFolder folder;
  EXPECT_FALSE(DirectoryClaim::IsTaken(folder.path()));
  const Result<DirectoryClaim> first = DirectoryClaim::Take(folder.path());
  ASSERT_TRUE(first.ok()) << first.error().ToString();
  EXPECT_TRUE(DirectoryClaim::IsTaken(folder.path()));
  const Result<DirectoryClaim> second = DirectoryClaim::Take(folder.path());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().ToString(),
              HasSubstr("is in use by process " + std::to_string(getpid()) + " on "));
  EXPECT_THAT(second.error().ToString(), HasSubstr("choose another directory"));
}

TEST(DirectoryClaim, EndsWithItsHolder) {
  const ScratchFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const Result<DirectoryClaim> claim = DirectoryClaim::Take(folder.path());
    _exit(claim.ok() ? 0 : 1);  // without a destructor, as one that was killed
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(DirectoryClaim::IsTaken(folder.path()));
  EXPECT_TRUE(DirectoryClaim::Take(folder.path()).ok());
}

TEST(DirectoryClaim, IsNotTrickedByWhatHasItsName) {
  for (const char* trick : {"link", "pipe"}) {
    const ScratchFolder folder;
    const std::string lock = folder / kClaimFile;
    ASSERT_TRUE(WriteFile(folder / "victim", "precious").ok());
    const int made = std::string(trick) == "link"
                         ? symlink((folder / "victim").c_str(), lock.c_str())
                         : mkfifo(lock.c_str(), 0600);
    ASSERT_EQ(made, 0);
    EXPECT_FALSE(DirectoryClaim::Take(folder.path()).ok()) << trick;
    EXPECT_EQ(ReadFile(folder / "victim").value(), "precious");
  }
}

TEST(DirectoryClaim, WhatAHolderWroteIsShownNotObeyed) {
  const ScratchFolder folder;
  const Result<DirectoryClaim> first = DirectoryClaim::Take(folder.path());
  ASSERT_TRUE(first.ok());
  FILE* file = std::fopen((folder / kClaimFile).c_str(), "w");
  std::fputs("\x1b[2Jevil\nsecond line", file);
  std::fclose(file);
  const std::string refused = DirectoryClaim::Take(folder.path()).error().what;
  EXPECT_EQ(refused, "is in use by \\x1b[2Jevil");
}

TEST(DirectoryClaim, OnlyTheFileOfTheDirectoryIsAdopted) {
  const ScratchFolder folder, other;
  const Result<DirectoryClaim> claim = DirectoryClaim::Take(folder.path());
  ASSERT_TRUE(claim.ok());
  const int file = dup(claim.value().KeepOnExec());
  EXPECT_FALSE(DirectoryClaim::Adopt(other.path(), file).has_value());
  EXPECT_FALSE(DirectoryClaim::Adopt(folder.path(), -1).has_value());
  EXPECT_TRUE(DirectoryClaim::Adopt(folder.path(), file).has_value());
}

}  // namespace
}  // namespace heddle
