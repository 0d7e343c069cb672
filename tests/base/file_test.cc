#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace heddle {
namespace {

using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("heddle-file-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }
  size_t FileCount() const {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(FileTest, ReadsWhatWasWritten) {
  const std::string contents = std::string("a\0b\n", 4) + std::string(200000, 'x');
  ASSERT_TRUE(WriteFile(Path("f"), contents).ok());
  EXPECT_EQ(ReadFile(Path("f")).value(), contents);
  ASSERT_TRUE(WriteFile(Path("f"), "").ok());
  EXPECT_EQ(ReadFile(Path("f")).value(), "");
}

TEST_F(FileTest, NothingElseIsLeftBehind) {
  ASSERT_TRUE(WriteFile(Path("f"), "one").ok());
  ASSERT_TRUE(WriteFile(Path("f"), "two").ok());
  EXPECT_EQ(FileCount(), 1U);
}

// The new file takes the old one's place in one step: who has the old one open still has it whole.
TEST_F(FileTest, AReaderKeepsTheOldFile) {
  ASSERT_TRUE(WriteFile(Path("f"), "old").ok());
  const std::filesystem::path link = Path("other-name");
  std::filesystem::create_hard_link(Path("f"), link);
  ASSERT_TRUE(WriteFile(Path("f"), "new").ok());
  EXPECT_EQ(ReadFile(link).value(), "old");
  EXPECT_EQ(ReadFile(Path("f")).value(), "new");
}

TEST_F(FileTest, ErrorsNameTheFile) {
  const Result<std::string> missing = ReadFile(Path("nowhere/f"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(missing.error().ToString(), HasSubstr("nowhere/f: cannot open: No such file"));
  EXPECT_THAT(WriteFile(Path("nowhere/f"), "x").error().ToString(),
              HasSubstr("cannot create: No such file"));
  EXPECT_THAT(ReadFile(Path("")).error().ToString(), HasSubstr("cannot read: Is a directory"));
}

TEST_F(FileTest, AFailedWriteLeavesTheOldFile) {
  std::filesystem::create_directories(Path("d/inside"));
  EXPECT_FALSE(WriteFile(Path("d"), "x").ok());  // a directory cannot be replaced
  EXPECT_TRUE(std::filesystem::exists(Path("d/inside")));
  EXPECT_EQ(FileCount(), 1U);
}

TEST_F(FileTest, PlainFilesOnlyAndSoMuchOfThem) {
  ASSERT_TRUE(WriteFile(Path("file"), "12345678").ok());
  EXPECT_EQ(ReadRegularFile(Path("file"), 8).value(), "12345678");
  EXPECT_FALSE(ReadRegularFile(Path("file"), 7).ok());
  EXPECT_FALSE(ReadRegularFile("/dev/zero", 8).ok());
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(ReadRegularFile(Path("pipe"), 8).ok()) << "and nobody waits";
  ASSERT_EQ(symlink(Path("file").c_str(), Path("link").c_str()), 0);
  EXPECT_FALSE(ReadRegularFile(Path("link"), 8).ok());
}

TEST_F(FileTest, DevicesAreWrittenTo) { EXPECT_TRUE(WriteFile("/dev/null", "x").ok()); }

}  // namespace
}  // namespace heddle
