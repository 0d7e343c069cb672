#include "run/meet/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr const char* kGood = "0123456789abcdef0123456789abcdef";

std::string TagOf(const Secret& secret) { return std::string(TextOf(secret.Tag({"x"}))); }

TEST(SecretTest, FromTheEnvironmentOrAFile) {
  EXPECT_FALSE(FindSecret(nullptr, "").value().has_value());
  const ScratchFolder folder;
  const std::string path = folder / "secret";
  ASSERT_TRUE(WriteFile(path, std::string(kGood) + "\n").ok());
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(TagOf(*FindSecret(kGood, "").value()), TagOf(*FindSecret(nullptr, path).value()));
  EXPECT_NE(TagOf(*FindSecret(kGood, "").value()),
            TagOf(*FindSecret("0123456789abcdef0123456789abcdeg", "").value()));
}

TEST(SecretTest, WhatIsNoSecretIsRefused) {
  EXPECT_THAT(FindSecret("short", "").error().ToString(), HasSubstr("can be guessed"));
  EXPECT_FALSE(FindSecret("", "").ok());
  EXPECT_FALSE(FindSecret(std::string(5000, 'x').c_str(), "").ok());
  const ScratchFolder folder;
  const std::string path = folder / "secret";
  ASSERT_TRUE(WriteFile(path, kGood).ok());
  for (const mode_t mode : {0640, 0604, 0620, 0644}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_THAT(FindSecret(nullptr, path).error().ToString(), HasSubstr("chmod 600")) << mode;
  }
  EXPECT_FALSE(FindSecret(nullptr, folder / "nowhere").ok());
  EXPECT_THAT(FindSecret(nullptr, folder / "").error().ToString(), HasSubstr("no regular file"));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(FindSecret(nullptr, folder / "pipe").ok());  // and does not wait for a writer
}

TEST(SecretTest, RandomBytesAreNotTheSameTwice) {
  EXPECT_NE(RandomBytes(), RandomBytes());
  EXPECT_NE(TagOf(Secret::Generate()), TagOf(Secret::Generate()));
}

}  // namespace
}  // namespace heddle
