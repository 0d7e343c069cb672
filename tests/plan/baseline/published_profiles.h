// The profiles that others published, where this machine has them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "model/layer_profile.h"

namespace heddle {

inline std::string PublishedProfile(const std::string& name) {
  return std::string(HEDDLE_SOURCE_DIR) + "/../shared/data/profiles/" + name + ".txt";
}

}  // namespace heddle

#define HEDDLE_NEED_PROFILE(name)                                      \
  if (!std::filesystem::exists(heddle::PublishedProfile(name))) {      \
    GTEST_SKIP() << heddle::PublishedProfile(name) << " is not there;" \
                 << " the published profiles are no part of heddle";   \
  }                                                                    \
  static_assert(true)
