// The version of heddle, by semantic versioning: CMakeLists.txt reads it here. A program that was
// compiled with one version and linked with another can compare HEDDLE_VERSION_STRING to
// heddle::api::Version().
#pragma once

#define HEDDLE_VERSION_MAJOR 0
#define HEDDLE_VERSION_MINOR 1
#define HEDDLE_VERSION_PATCH 0
#define HEDDLE_VERSION_STRING "0.1.0"
