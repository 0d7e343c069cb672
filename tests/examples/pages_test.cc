// What the pages name is there: files and folders in `code`, and where links lead.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "examples/document.h"
#include "examples/sandbox.h"
#include "support/places.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SourceDir();

std::vector<fs::path> Pages() {
  std::vector<fs::path> pages = {kRoot / "README.md", kRoot / "CONTRIBUTING.md",
                                 kRoot / "examples/README.md"};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  return pages;
}

// A page without what stands between fences.
std::string ProseOf(const fs::path& page) {
  Document document(ReadText(page));
  for (FencedBlock& block : document.blocks()) block.lines.clear();
  return document.Print();
}

// First parts of the paths that are looked for: folders of the repository and of src/.
bool BeginsInRepository(const std::string& path) {
  const std::string first = path.substr(0, path.find('/'));
  const std::vector<std::string> made = {"build", "runs"};  // by commands
  if (std::find(made.begin(), made.end(), first) != made.end()) return false;
  return fs::is_directory(kRoot / first) || fs::is_directory(kRoot / "src" / first);
}

bool IsThere(const std::string& path) {
  for (const fs::path& start : {kRoot, kRoot / "src"}) {
    for (const char* ending : {"", ".h", ".cc"}) {
      if (fs::exists(start / (path + ending))) return true;
    }
  }
  return false;
}

std::vector<std::string> Found(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
    found.push_back((*at)[1]);
  }
  return found;
}

TEST(PagesTest, FilesThatAreNamedAreThere) {
  const std::regex code("`([a-z0-9_.-]+/[a-z0-9_./-]+)`");
  int named = 0;
  for (const fs::path& page : Pages()) {
    for (const std::string& path : Found(ProseOf(page), code)) {
      if (!BeginsInRepository(path)) continue;
      ++named;
      EXPECT_TRUE(IsThere(path)) << page << " names " << path;
    }
  }
  EXPECT_GT(named, 50);
}

TEST(PagesTest, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#:]+)(#[^)]*)?\))");
  for (const fs::path& page : Pages()) {
    for (const std::string& path : Found(ProseOf(page), link)) {
      EXPECT_TRUE(fs::exists(page.parent_path() / path)) << page << " links " << path;
    }
  }
}

}  // namespace
}  // namespace heddle
