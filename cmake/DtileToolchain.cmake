# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Defaults that CMake wants before project(): the compiler, the build type and ccache. Whatever
# the caller sets, on the command line or in the environment, wins.

if(NOT CMAKE_C_COMPILER AND NOT DEFINED ENV{CC})
  find_program(DTILE_CLANG NAMES clang-22 PATHS /usr/lib/llvm-22/bin NO_CACHE)
  if(DTILE_CLANG)
    set(CMAKE_C_COMPILER "${DTILE_CLANG}")
  endif()
endif()
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(DTILE_CLANGXX NAMES clang++-22 PATHS /usr/lib/llvm-22/bin NO_CACHE)
  if(DTILE_CLANGXX)
    set(CMAKE_CXX_COMPILER "${DTILE_CLANGXX}")
  endif()
endif()

get_property(isMultiConfig GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT isMultiConfig)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

# ccache caches what uses precompiled headers where it may take their macros for granted.
find_program(DTILE_CCACHE NAMES ccache)
if(DTILE_CCACHE)
  foreach(language IN ITEMS C CXX)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros "${DTILE_CCACHE}")
    endif()
  endforeach()
endif()

# Tests use Debian's numpy and psutil, so its Python goes before any other in PATH.
if(NOT DEFINED Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
