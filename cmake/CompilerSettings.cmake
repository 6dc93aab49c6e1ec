# Warnings, sanitizers, ccache and the linker.

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers
                    -Werror=return-type)
# A new compiler's warnings keep no user from building; the tests' own builds set their compiler.
option(COMPILECACHE_WERROR "Warnings are errors" OFF)
if(COMPILECACHE_WERROR)
  add_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 is wrong about operator+ of a char and a string (GCC bug 105651).
  add_compile_options(-Wno-restrict)
  # In a unity build it takes every source for a header.
  if(CMAKE_UNITY_BUILD)
    add_compile_options(-Wno-subobject-linkage)
  endif()
endif()
# What base/mutex.hpp's locks guard is touched with the lock held.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wthread-safety -Werror=thread-safety)
  # RapidJSON's iterators are from before C++20.
  add_compile_options(-Wno-ambiguous-reversed-operator)
endif()
include_directories(${CMAKE_SOURCE_DIR})

# -DCOMPILECACHE_SANITIZE=address,undefined (or thread)
set(COMPILECACHE_SANITIZE "" CACHE STRING "Sanitizers to build with")
if(COMPILECACHE_SANITIZE)
  add_compile_options(-fsanitize=${COMPILECACHE_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${COMPILECACHE_SANITIZE})
  # A check's place in the source is data with an address: where programs may be moved, a relocation each makes them a third
  # larger, and is repeated at each start.
  add_link_options(-no-pie)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Libraries name their objects instead of holding them once more.
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> qc --thin <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "<CMAKE_AR> q --thin <TARGET> <LINK_FLAGS> <OBJECTS>")

find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
  if(COMPILECACHE_SANITIZE)
    add_link_options(-Wl,--compress-debug-sections=zlib)
  endif()
endif()
