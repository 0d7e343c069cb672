# Read by ctest once all tests of this folder are known: those that tests/slow_tests.txt names get the label
# slow, by which ./dev test --quick and the sanitizers leave them out. tools/check_slow_tests sees to it that
# every line names a test.

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/slow_tests.txt" slow_patterns REGEX "^[^#]")

foreach(slow_executable IN LISTS slow_test_executables)
  foreach(slow_test IN LISTS ${slow_executable}_TESTS)
    string(REGEX REPLACE " +# GetParam.*" "" slow_name "${slow_test}")  # ctest adds what a parameter is
    # One after the other: a regular expression may not have as many parts as there are lines.
    foreach(slow_pattern IN LISTS slow_patterns)
      if(slow_name MATCHES "^(${slow_pattern})$")
        set_tests_properties("${slow_test}" PROPERTIES LABELS "${slow_executable};slow")
        break()
      endif()
    endforeach()
  endforeach()
endforeach()
