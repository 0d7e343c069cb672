#include "base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/file.h"
#include "support/child_process.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(const Status& status) { return status.ok() ? "" : status.error().ToString(); }

TEST(AtomicFileTest, PiecesBecomeOneFile) {
  const ScratchFolder scratch;
  AtomicFile file = AtomicFile::Create(scratch / "f", 6).value();
  ASSERT_TRUE(file.Append("abc").ok());
  ASSERT_TRUE(file.Append("").ok());
  ASSERT_TRUE(file.Append("def").ok());
  EXPECT_FALSE(std::filesystem::exists(scratch / "f"));
  ASSERT_TRUE(file.Commit().ok());
  EXPECT_EQ(ReadFile(scratch / "f").value(), "abcdef");
  EXPECT_THAT(scratch.Names(), ElementsAre("f"));
}

TEST(AtomicFileTest, WithoutCommitNothingHappens) {
  const ScratchFolder scratch;
  ASSERT_TRUE(WriteFile(scratch / "f", "old").ok());
  {
    AtomicFile file = AtomicFile::Create(scratch / "f", 3).value();
    ASSERT_TRUE(file.Append("new").ok());
    const AtomicFile moved = std::move(file);
  }
  EXPECT_EQ(ReadFile(scratch / "f").value(), "old");
  EXPECT_THAT(scratch.Names(), ElementsAre("f"));
}

TEST(AtomicFileTest, TwoWritersOfOnePath) {
  const ScratchFolder scratch;
  AtomicFile first = AtomicFile::Create(scratch / "f", 5).value();
  AtomicFile second = AtomicFile::Create(scratch / "f", 6).value();
  ASSERT_TRUE(first.Append("first").ok());
  ASSERT_TRUE(second.Append("second").ok());
  ASSERT_TRUE(second.Commit().ok());
  ASSERT_TRUE(first.Commit().ok());
  EXPECT_EQ(ReadFile(scratch / "f").value(), "first");
}

TEST(AtomicFileTest, LinksAreFollowed) {
  const ScratchFolder scratch;
  std::filesystem::create_directory(scratch / "d");
  std::filesystem::create_symlink("d/file", scratch / "link");
  std::filesystem::create_symlink("link", scratch / "link-to-link");
  ASSERT_TRUE(WriteFile(scratch / "link-to-link", "one").ok());  // the file is not there yet
  EXPECT_EQ(ReadFile(scratch / "d/file").value(), "one");
  ASSERT_TRUE(WriteFile(scratch / "link", "two").ok());
  EXPECT_EQ(ReadFile(scratch / "d/file").value(), "two");
  EXPECT_TRUE(std::filesystem::is_symlink(scratch / "link"));
  EXPECT_THAT(scratch.Names("d"), ElementsAre("file"));
}

TEST(AtomicFileTest, ACircleOfLinksIsAnError) {
  const ScratchFolder scratch;
  std::filesystem::create_symlink("b", scratch / "a");
  std::filesystem::create_symlink("a", scratch / "b");
  EXPECT_THAT(ErrorOf(WriteFile(scratch / "a", "x")), HasSubstr("symbolic links"));
  EXPECT_THAT(scratch.Names(), ElementsAre("a", "b"));
}

TEST(AtomicFileTest, TheModeStays) {
  const ScratchFolder scratch;
  ASSERT_TRUE(WriteFile(scratch / "f", "secret").ok());
  ASSERT_EQ(::chmod((scratch / "f").c_str(), 0600), 0);
  ASSERT_TRUE(WriteFile(scratch / "f", "new secret").ok());
  struct stat info {};
  ASSERT_EQ(::stat((scratch / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST(AtomicFileTest, APathThroughAFile) {
  const ScratchFolder scratch;
  ASSERT_TRUE(WriteFile(scratch / "f", "old").ok());
  EXPECT_THAT(ErrorOf(WriteFile(scratch / "f/below", "x")),
              AllOf(HasSubstr("f/below: cannot create: Not a directory"),
                    HasSubstr("a part of this path is a file")));
  EXPECT_THAT(ErrorOf(WriteFile(scratch / "none/f", "x")), HasSubstr("create the directory"));
  EXPECT_THAT(ErrorOf(WriteFile(scratch.path(), "x")), HasSubstr("name a file"));
  EXPECT_THAT(ErrorOf(MakeDirectories(scratch / "f/below")), HasSubstr("f: is a file"));
  EXPECT_THAT(scratch.Names(), ElementsAre("f"));
}

TEST(AtomicFileTest, DirectoriesAroundADirectory) {
  const ScratchFolder scratch;
  ASSERT_TRUE(MakeDirectories(scratch / "a/b/c").ok());
  ASSERT_TRUE(MakeDirectories(scratch / "a/b/c/").ok());
  EXPECT_TRUE(std::filesystem::is_directory(scratch / "a/b/c"));
  EXPECT_EQ(DirectoryOf("name"), ".");
  EXPECT_EQ(DirectoryOf("/name"), "/");
  EXPECT_EQ(DirectoryOf("a/name"), "a");
}

TEST(AtomicFileTest, AFullDeviceIsAnError) {
  const std::string error = ErrorOf(WriteFile("/dev/full", "hello"));
  EXPECT_THAT(error, AllOf(HasSubstr("/dev/full: cannot write: No space left on device"),
                           HasSubstr("5 bytes are wanted"), HasSubstr("free 5 bytes there")));
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
}

TEST(AtomicFileTest, AFileThatMayNotGrowLeavesTheOldOne) {
  const ScratchFolder scratch;
  ASSERT_TRUE(WriteFile(scratch / "f", "old").ok());
  const std::string said = InChild([&] {
    LimitFileSize(4096);
    return ErrorOf(WriteFile(scratch / "f", std::string(10000, 'x')));
  });
  EXPECT_THAT(said, AllOf(HasSubstr("f: cannot write: File too large; 10000 bytes are wanted"),
                          HasSubstr("what was there before is untouched")));
  EXPECT_EQ(ReadFile(scratch / "f").value(), "old");
  EXPECT_THAT(scratch.Names(), ElementsAre("f"));
}

TEST(AtomicFileTest, AFullDiskLeavesTheOldFile) {
  const ScratchFolder scratch;
  const std::string said = InChild([&]() -> std::string {
    if (!MountTinyDisk(scratch.path(), "64k")) return "not permitted";
    if (!WriteFile(scratch / "f", "old").ok()) return "cannot write at all";
    std::string error = ErrorOf(WriteFile(scratch / "f", std::string(1000000, 'x')));
    const bool kept = ReadFile(scratch / "f").value() == "old" && scratch.Names().size() == 1;
    return error + (kept ? "" : " and the old file is lost");
  });
  if (said == "not permitted") GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  EXPECT_THAT(said, AllOf(HasSubstr("cannot write: No space left on device"),
                          HasSubstr("free 1000000 bytes there ("),
                          HasSubstr("what was there before is untouched")));
  EXPECT_THAT(said, testing::Not(HasSubstr("is lost")));
}

}  // namespace
}  // namespace heddle
