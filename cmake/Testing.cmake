# cc_add_test(NAME SOURCES a_test.cpp ... LIBS cc_base ... [LABEL unit] [SECONDS 200])
#
# One GoogleTest program, run by ctest as one test. Its exit status alone says how it went; with
# CC_NO_SKIPS in the environment a skipped test fails (tests/support/no_skips.cpp). The
# longest begin first: SECONDS is what one takes under a sanitizer, where that is more than a minute.
function(cc_add_test name)
  cmake_parse_arguments(ARG "" "LABEL;SECONDS" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} cc_paths cc_no_skips GTest::gtest GTest::gmock
                                        GTest::gtest_main)
  if(ARG_LABEL STREQUAL integration)
    add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/support/on_cluster $<TARGET_FILE:${name}>)
    set_tests_properties(${name} PROPERTIES RESOURCE_GROUPS clusters:1)
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  # Seconds, for a program that hangs; others run beside it, and sanitizers take three times as long.
  set(limit 1500)
  if(COMPILECACHE_SANITIZE)
    set(limit 3000)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${limit})
  if(ARG_SECONDS)
    set_tests_properties(${name} PROPERTIES COST ${ARG_SECONDS})
  endif()
endfunction()

# cc_paths, the one library that knows where the tree and build results lie (tests/support/paths.hpp).
function(cc_add_paths)
  add_library(cc_paths STATIC EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/support/paths.cpp)
  target_compile_definitions(cc_paths PRIVATE CC_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                              CC_BINARY_DIR="${CMAKE_BINARY_DIR}")
endfunction()
