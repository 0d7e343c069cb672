// Results within heddle as those of its library.
#pragma once

#include <heddle/result.h>

#include <utility>

#include "base/result.h"

namespace heddle::api {

inline Error Outward(const heddle::Error& error) {
  return {static_cast<ErrorKind>(error.kind), error.where, error.what, error.hint};
}

inline Status Outward(const heddle::Status& status) {
  return status.ok() ? Status(Nothing{}) : Status(Outward(status.error()));
}

// HEDDLE_ASSIGN in a function that returns a Result of the library.
#define HEDDLE_ASSIGN_OUTWARD_INNER(declaration, expression, result) \
  auto result = (expression);                                        \
  if (!result.ok()) return Outward(result.error());                  \
  declaration = std::move(result).value()
#define HEDDLE_ASSIGN_OUTWARD(declaration, expression) \
  HEDDLE_ASSIGN_OUTWARD_INNER(declaration, expression, HEDDLE_CONCAT(result_, __LINE__))

}  // namespace heddle::api
