// HEDDLE_CHECK: for programmer errors only. Bad input is a Result (result.h).
//
//   HEDDLE_CHECK(index < size);                      aborts with file, line and the condition
#pragma once

#include <cstdio>
#include <cstdlib>

#define HEDDLE_CHECK(condition)                                                          \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
