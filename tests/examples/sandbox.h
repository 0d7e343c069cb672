// Sandbox: a folder of its own in which a command line of the docs or an example runs as if it were
// the repository: examples/, docs/ and tests/ are there, build/ is empty, `heddle` is in the path.
//
//   Sandbox sandbox;
//   const Session session = sandbox.Run("heddle models | head -n 1");
//   EXPECT_EQ(session.exit_code, 0) << session.output;
#pragma once

#include <string>

namespace heddle {

struct Session {
  int exit_code = -1;
  std::string output;  // standard output and standard error, as they came
};

class Sandbox {
 public:
  Sandbox();
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  Session Run(const std::string& command) const;
  void Write(const std::string& file, const std::string& text) const;
  std::string Read(const std::string& file) const;

 private:
  std::string folder_;
};

// Whether the golden texts are to be rewritten with what came out: HEDDLE_UPDATE_GOLDEN is set.
bool UpdatesGolden();

std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text);

}  // namespace heddle
