// Result<T>: a value, or an Error that says where, what was found and what to do about it.
//
//   heddle::api::Result<heddle::api::Cluster> cluster = heddle::api::Cluster::Load("lab.toml");
//   if (!cluster.ok()) std::cerr << cluster.error().Text() << "\n";
//   else Use(cluster.value());
//
// The library throws nothing of its own and never prints or exits.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace heddle::api {

// The numbers are the exit codes of the command line.
enum class ErrorKind {
  kInternal = 1,    // a mistake of heddle
  kUsage = 2,       // a request that means nothing
  kInfeasible = 3,  // too little memory, wherever one looks
  kBadInput = 4,    // a file or a value
};

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string where;  // file, and the field or line in it
  std::string what;   // what was found there
  std::string hint;   // what was expected, or what to do; may be empty

  std::string Text() const;  // "where: what (hint)"
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok(); the program ends otherwise.
  const T& value() const& {
    if (!ok()) std::abort();
    return *std::get_if<0>(&state_);
  }
  T value() && {
    if (!ok()) std::abort();
    return std::move(*std::get_if<0>(&state_));
  }
  // REQUIRES: !ok().
  const Error& error() const {
    if (ok()) std::abort();
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, Error> state_;
};

struct Nothing {};
using Status = Result<Nothing>;

}  // namespace heddle::api
