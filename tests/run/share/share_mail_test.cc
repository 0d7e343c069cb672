#include "run/share/share_mail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::HasSubstr;

class ShareMail : public testing::Test {
 protected:
  ShareMail() { EXPECT_TRUE(OpenMailbox(folder_.path()).ok()); }

  std::string LetterPath(const std::string& name) const {
    return folder_ / ("attach/" + name + ".json");
  }
  static ShareJobConfig Job(const std::string& name) {
    ShareJobConfig job;
    job.name = name;
    job.plan = "plan.json";
    job.steps = 4;
    return job;
  }

  ScratchFolder folder_;
};

TEST_F(ShareMail, ALetterIsTakenOnce) {
  ASSERT_TRUE(WriteFile(LetterPath("a"), ShareJobToJson(Job("a")).dump()).ok());
  const std::vector<Mail> mail = TakeMail(folder_.path());
  ASSERT_EQ(mail.size(), 1U);
  EXPECT_EQ(mail[0].name, "a");
  ASSERT_TRUE(mail[0].job.ok()) << mail[0].job.error().ToString();
  EXPECT_EQ(mail[0].job.value().steps, 4);
  EXPECT_TRUE(TakeMail(folder_.path()).empty());
}

TEST_F(ShareMail, ANameThatLeadsElsewhereIsRefused) {
  for (const char* name : {"../../victim", "/tmp/victim", "a/b", "..", ".hidden", "", "\x1b[2J"}) {
    Json letter = ShareJobToJson(Job("a"));
    letter["name"] = name;
    ASSERT_TRUE(WriteFile(LetterPath("a"), letter.dump()).ok());
    const std::vector<Mail> mail = TakeMail(folder_.path());
    ASSERT_EQ(mail.size(), 1U) << name;
    ASSERT_FALSE(mail[0].job.ok()) << name;
    EXPECT_THAT(mail[0].job.error().ToString(), HasSubstr("is no name for a job"));
  }
}

TEST_F(ShareMail, PipesLinksAndFoldersAreNotReadAndHoldNobodyUp) {
  ASSERT_EQ(mkfifo(LetterPath("pipe").c_str(), 0600), 0);
  ASSERT_EQ(mkdir(LetterPath("folder").c_str(), 0700), 0);
  ASSERT_EQ(symlink("/dev/zero", LetterPath("link").c_str()), 0);
  const std::vector<Mail> mail = TakeMail(folder_.path());
  EXPECT_EQ(mail.size(), 3U);
  for (const Mail& letter : mail) EXPECT_FALSE(letter.job.ok()) << letter.name;
  EXPECT_TRUE(TakeMail(folder_.path()).empty());
}

TEST_F(ShareMail, ALongLetterIsNotReadToItsEnd) {
  ASSERT_TRUE(WriteFile(LetterPath("a"), std::string(3 << 20, ' ')).ok());
  const std::vector<Mail> mail = TakeMail(folder_.path());
  ASSERT_EQ(mail.size(), 1U);
  ASSERT_FALSE(mail[0].job.ok());
  EXPECT_THAT(mail[0].job.error().ToString(), HasSubstr("larger than 1.00 MiB"));
}

// Whoever fills the box is read in turns.
TEST_F(ShareMail, SoManyLettersAtATime) {
  for (int k = 0; k < 100; ++k) {
    ASSERT_TRUE(WriteFile(LetterPath("a" + std::to_string(k)), "{}").ok());
  }
  EXPECT_EQ(TakeMail(folder_.path()).size(), 64U);
  EXPECT_EQ(TakeMail(folder_.path()).size(), 36U);
}

TEST_F(ShareMail, NobodyJoinsAShareWhoseLeaderIsGone) {
  const Result<Json> joined = AttachJob(folder_.path(), Job("a"));
  ASSERT_FALSE(joined.ok());
  EXPECT_THAT(joined.error().ToString(), HasSubstr("no share runs there"));
  EXPECT_FALSE(std::filesystem::exists(LetterPath("a")));
}

}  // namespace
}  // namespace heddle
