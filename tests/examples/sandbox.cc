#include "examples/sandbox.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/places.h"

namespace heddle {
namespace fs = std::filesystem;

Sandbox::Sandbox() {
  std::string name = (fs::temp_directory_path() / "heddle-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    ADD_FAILURE() << "cannot make the folder " << name;
    return;
  }
  folder_ = name;
  for (const char* shared : {"examples", "docs", "tests"}) {
    fs::create_directory_symlink(fs::path(SourceDir()) / shared, fs::path(folder_) / shared);
  }
  fs::create_directory(fs::path(folder_) / "build");
}

Sandbox::~Sandbox() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Session Sandbox::Run(const std::string& command) const {
  Session session;
  Write("command.sh", command + "\n");
  const std::string heddle_folder = fs::path(HeddleBinary()).parent_path().string();
  const std::string line = "cd '" + folder_ + "' && PATH='" + heddle_folder +
                           "':\"$PATH\" HEDDLE='" + HeddleBinary() +
                           "' HEDDLE_BUDGET=86400 LC_ALL=C.UTF-8 env -u COLUMNS "
                           "bash command.sh 2>&1 < /dev/null";
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "cannot run " << line;
    return session;
  }
  std::array<char, 4096> part{};
  for (size_t got = 0; (got = fread(part.data(), 1, part.size(), pipe)) > 0;) {
    session.output.append(part.data(), got);
  }
  const int status = pclose(pipe);
  session.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return session;
}

void Sandbox::Write(const std::string& file, const std::string& text) const {
  WriteText((fs::path(folder_) / file).string(), text);
}

std::string Sandbox::Read(const std::string& file) const {
  return ReadText((fs::path(folder_) / file).string());
}

bool UpdatesGolden() { return getenv("HEDDLE_UPDATE_GOLDEN") != nullptr; }

std::string ReadText(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << "cannot read " << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  EXPECT_TRUE(file.good()) << "cannot write " << path;
}

}  // namespace heddle
