#include "base/result.h"

namespace heddle {

std::string Error::ToString() const {
  std::string text = where.empty() ? what : where + ": " + what;
  if (!hint.empty()) text += "\n  hint: " + hint;
  return text;
}

Error BadInput(std::string where, std::string what, std::string hint) {
  return {ErrorKind::kBadInput, std::move(where), std::move(what), std::move(hint)};
}

Error Infeasible(std::string where, std::string what, std::string hint) {
  return {ErrorKind::kInfeasible, std::move(where), std::move(what), std::move(hint)};
}

Error Usage(std::string what, std::string hint) {
  return {ErrorKind::kUsage, "", std::move(what), std::move(hint)};
}

}  // namespace heddle
