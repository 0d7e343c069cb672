// Result<T>: a value, or an Error that names where, what and the remedy.
//
//   Result<Cluster> LoadCluster(const std::string& path);
//
//   HEDDLE_ASSIGN(Cluster cluster, LoadCluster("lab.toml"));   // returns the error to the caller
//   HEDDLE_RETURN_IF_ERROR(Validate(cluster));
//
// Only cli/ prints errors and turns their kind into an exit code.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace heddle {

// The numbers are the exit codes of the command line.
enum class ErrorKind {
  kInternal = 1,
  kUsage = 2,
  kInfeasible = 3,
  kBadInput = 4,
  kRunFailed = 5,
  kParity = 6,
};

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string where;  // file, and the field or line inside it
  std::string what;   // what was found
  std::string hint;   // what was expected, or what to do about it

  // "where: what (hint)"
  std::string ToString() const;
};

Error BadInput(std::string where, std::string what, std::string hint = "");
Error Infeasible(std::string where, std::string what, std::string hint = "");
Error Usage(std::string what, std::string hint = "");

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  const T& value() const& {
    HEDDLE_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    HEDDLE_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  const Error& error() const {
    HEDDLE_CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

struct Unit {};
using Status = Result<Unit>;
inline Status Ok() { return Unit{}; }

#define HEDDLE_CONCAT_INNER(a, b) a##b
#define HEDDLE_CONCAT(a, b) HEDDLE_CONCAT_INNER(a, b)
#define HEDDLE_ASSIGN_INNER(declaration, expression, result) \
  auto result = (expression);                                \
  if (!result.ok()) return result.error();                   \
  declaration = std::move(result).value()
#define HEDDLE_ASSIGN(declaration, expression) \
  HEDDLE_ASSIGN_INNER(declaration, expression, HEDDLE_CONCAT(result_, __LINE__))
#define HEDDLE_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (auto result_ = (expression); !result_.ok()) return result_.error(); \
  } while (false)

}  // namespace heddle
