# Included by project() in the copy of tests/mutate/draw: gives every program the switch, and every test program the record of what
# it reached. CC_MUTANTS: how many changes there are.
function(add_switch)
  target_sources(cc_base PRIVATE ${CMAKE_SOURCE_DIR}/tests/mutate/switch/mutant.cpp)
  target_sources(cc_no_skips PRIVATE ${CMAKE_SOURCE_DIR}/tests/mutate/switch/reached.cpp)
  foreach(target cc_base cc_no_skips)
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endforeach()
  set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/mutate/switch/mutant.cpp TARGET_DIRECTORY cc_base
                              PROPERTIES COMPILE_DEFINITIONS CC_MUTANTS=${CC_MUTANTS})
  set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/mutate/switch/reached.cpp TARGET_DIRECTORY cc_no_skips
                              PROPERTIES COMPILE_DEFINITIONS CC_MUTANTS=${CC_MUTANTS})
endfunction()
cmake_language(DEFER CALL add_switch)
