#include "base/destination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "support/child_process.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(DestinationTest, WhatCanBeWrittenLeavesNothingBehind) {
  const ScratchFolder folder;
  EXPECT_TRUE(CheckWritable("").ok());
  EXPECT_TRUE(CheckWritable(folder / "new.json").ok());
  EXPECT_EQ(folder.Names(), std::vector<std::string>{});
  ASSERT_TRUE(WriteFile(folder / "old.json", "kept").ok());
  EXPECT_TRUE(CheckWritable(folder / "old.json").ok());
  EXPECT_EQ(ReadFile(folder / "old.json").value(), "kept");
  EXPECT_TRUE(CheckWritable("/dev/null").ok());
}

TEST(DestinationTest, APipeIsNotOpened) {
  const ScratchFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(CheckWritable(folder / "pipe").ok());  // and does not wait for a reader
}

TEST(DestinationTest, WhatCannotIsSaidAsIfItHadBeenTried) {
  const ScratchFolder folder;
  const Status missing = CheckWritable(folder / "nowhere/plan.json");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().ToString(), HasSubstr("create the directory"));
  const Status directory = CheckWritable(folder.path());
  ASSERT_FALSE(directory.ok());
  EXPECT_THAT(directory.error().ToString(), HasSubstr("directory"));
  ASSERT_TRUE(WriteFile(folder / "file", "x").ok());
  EXPECT_FALSE(CheckWritable(folder / "file/plan.json").ok());
}

TEST(DestinationTest, RoomIsThatOfTheNearestDirectory) {
  const ScratchFolder folder;
  EXPECT_TRUE(CheckRoom(folder / "a/b/c", 1, "files").ok());
  const Status status = CheckRoom(folder / "a/b/c", INT64_MAX, "2 checkpoints");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("2 checkpoints need 9223372036854775807 bytes"));
  EXPECT_THAT(status.error().ToString(), HasSubstr("are free"));
}

TEST(DestinationTest, AFileThatMayNotBeThatLargeIsRefusedAtTheStart) {
  const std::string said = InChild([]() -> std::string {
    const rlimit limit{1000, 1000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "not permitted";
    if (!CheckFileSize("w", 1000).ok()) return "refused too early";
    const Status status = CheckFileSize("w", 1001);
    return status.ok() ? "permitted" : status.error().ToString();
  });
  EXPECT_EQ(said,
            "w: a file of 1001 bytes is wanted, and files may have 1000 here\n"
            "  hint: raise ulimit -f");
}

}  // namespace
}  // namespace heddle
