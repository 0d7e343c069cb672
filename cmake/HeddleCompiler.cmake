# How our own targets are compiled and linked. Everything hangs on the interface target
# heddle_options, so that nothing leaks into the headers and libraries of others.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(heddle_options INTERFACE)
target_compile_features(heddle_options INTERFACE cxx_std_20)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_EXTENSIONS OFF)
target_include_directories(heddle_options INTERFACE ${PROJECT_SOURCE_DIR}/src
                                                    ${PROJECT_SOURCE_DIR}/include)

# Warnings.
target_compile_options(heddle_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wcast-align -Wformat=2 -Wimplicit-fallthrough -Wextra-semi)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports overlapping copies inside std::string::operator+ that cannot happen.
  target_compile_options(heddle_options INTERFACE
    -Wduplicated-cond -Wduplicated-branches -Wlogical-op -Wno-restrict -Wno-maybe-uninitialized)
  if(HEDDLE_SANITIZE)
    # Instrumented code hides from the optimiser that a variant or optional was set.
    target_compile_options(heddle_options INTERFACE -Wno-maybe-uninitialized)
  endif()
else()
  # Clang counts signs into -Wconversion and GCC does not; keep them alike.
  target_compile_options(heddle_options INTERFACE -Wno-sign-conversion)
endif()
if(HEDDLE_WERROR)
  target_compile_options(heddle_options INTERFACE -Werror)
endif()

# Hardening: what finds a mistake of ours in memory before somebody uses it. Sanitizers find more, and
# do not go with _FORTIFY_SOURCE. Debian's compilers make position-independent executables unasked.
# Checked containers of the standard library cost planning 8 to 14%: they are in builds that look for mistakes
# (HEDDLE_ASSERTIONS: debug, lto, sanitized). tools/check_hardening looks at the binaries.
target_compile_options(heddle_options INTERFACE -fstack-protector-strong)
if(HEDDLE_ASSERTIONS OR HEDDLE_SANITIZE)
  target_compile_definitions(heddle_options INTERFACE _GLIBCXX_ASSERTIONS)
endif()
target_link_options(heddle_options INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
if(NOT HEDDLE_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(heddle_options INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()

# Sanitizers, with the checks of the standard library.
set(sanitizers ${HEDDLE_SANITIZE})
if(HEDDLE_FUZZ)
  string(JOIN "," sanitizers fuzzer-no-link ${HEDDLE_SANITIZE})
endif()
if(sanitizers)
  target_compile_options(heddle_options INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(heddle_options INTERFACE -fsanitize=${sanitizers})
endif()

if(HEDDLE_LTO)
  include(CheckIPOSupported)
  check_ipo_supported(LANGUAGES CXX)
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
  # Only when everything is linked together does a compiler see that two files mean different things by
  # one name.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(heddle_options INTERFACE -Wodr -Wlto-type-mismatch)
    target_link_options(heddle_options INTERFACE -Wodr -Wlto-type-mismatch)
    if(HEDDLE_WERROR)
      target_link_options(heddle_options INTERFACE -Werror=odr -Werror=lto-type-mismatch)
    endif()
  endif()
endif()

# Speed of the build: compiled files from the cache, and the fastest linker at hand. The cache keeps
# files with precompiled headers only if it is told that these may name macros and times; it knows a file of
# another clone again if paths are taken relative to the repository, which debug information would remember.
find_program(HEDDLE_CCACHE ccache)
if(HEDDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${HEDDLE_CCACHE})
endif()

include(CheckLinkerFlag)
foreach(linker mold lld)
  check_linker_flag(CXX -fuse-ld=${linker} HEDDLE_HAS_${linker})
  if(HEDDLE_HAS_${linker})
    target_link_options(heddle_options INTERFACE -fuse-ld=${linker})
    break()
  endif()
endforeach()
