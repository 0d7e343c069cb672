# find_package(heddle): the library heddle::heddle, with what it is linked with.
include(CMakeFindDependencyMacro)
find_dependency(fmt)
find_dependency(Threads)
find_dependency(PkgConfig)
pkg_check_modules(CLP REQUIRED IMPORTED_TARGET clp)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
include(${CMAKE_CURRENT_LIST_DIR}/heddleTargets.cmake)
