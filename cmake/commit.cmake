# cmake -DTREE=FOLDER [-DCOMMIT=...] -DOUTPUT=FILE -P commit.cmake: writes the source file with the commit that a program is built
# from, if the commit has changed. So a commit alone recompiles one tiny file and links the programs.
#
# In this order: what COMMIT says (-DCOMPILECACHE_COMMIT, for builds without git, as in the Dockerfile); commit.txt, where
# `git archive` puts it; git, with "-dirty" where the tree has changes; otherwise "unknown".

if(NOT COMMIT)
  file(READ "${CMAKE_CURRENT_LIST_DIR}/commit.txt" COMMIT)
  string(STRIP "${COMMIT}" COMMIT)
  if(COMMIT MATCHES "^[$]Format")
    set(COMMIT "")
  endif()
endif()
if(NOT COMMIT)
  find_program(GIT git)
endif()
if(NOT COMMIT AND GIT)
  # Not of a repository in which a tree without its own lies.
  execute_process(COMMAND "${GIT}" -C "${TREE}" rev-parse --show-toplevel OUTPUT_VARIABLE top
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${TREE}" tree)
  if(top STREQUAL tree)
    execute_process(COMMAND "${GIT}" -C "${TREE}" describe --always --dirty --abbrev=12 --exclude=*
                    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
if(NOT COMMIT MATCHES "^[0-9A-Za-z._-]+$")
  set(COMMIT unknown)
endif()
string(REGEX REPLACE "^([0-9a-f]...........)[0-9a-f]+$" "\\1" COMMIT "${COMMIT}")

set(source "#include \"base/version.hpp\"\n\nconst char* compilecache::build_commit() { return \"${COMMIT}\"; }\n")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT before STREQUAL source)
  file(WRITE "${OUTPUT}" "${source}")
endif()
