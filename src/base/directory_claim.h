// DirectoryClaim: a directory that one process writes, for as long as it lives.
//
//   HEDDLE_ASSIGN(DirectoryClaim claim, DirectoryClaim::Take("runs/gpt"));
//
// The kernel takes a claim back from the dead, so nothing stale is ever in the way. The file `lock`
// in the directory carries it and says who holds it; the file stays, and means nothing by itself.
// Who is refused is told at once, with the holder's process, host and time. Forked children hold
// the claim too, until the last of them has ended. File systems without locks give it to everybody.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace heddle {

inline constexpr const char* kClaimFile = "lock";

class DirectoryClaim {
 public:
  // REQUIRES: the directory is there.
  static Result<DirectoryClaim> Take(const std::string& directory);

  // Whether a process has it now, this one or another.
  static bool IsTaken(const std::string& directory);

  // For a program that this process becomes by exec: Adopt takes over what KeepOnExec let pass.
  int KeepOnExec() const;
  // Nothing if the file is not the one of this directory's claim.
  static std::optional<DirectoryClaim> Adopt(const std::string& directory, int file);

  DirectoryClaim(DirectoryClaim&& other) noexcept;
  DirectoryClaim& operator=(DirectoryClaim&&) = delete;
  ~DirectoryClaim();

 private:
  explicit DirectoryClaim(int file) : file_(file) {}
  int file_;
};

}  // namespace heddle
