# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Finds the libraries and tools that dtile is built on. scripts/setup.sh installs all of them.

# One LLVM version is supported. Its package accepts a request for its own major.minor only.
find_package(LLVM 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/llvm)
if(DTILE_STATIC)
  # LLVM's package asks for the shared ones.
  find_library(DTILE_ZLIB_STATIC libz.a REQUIRED)
  find_library(DTILE_ZSTD_STATIC libzstd.a REQUIRED)
  set_target_properties(ZLIB::ZLIB PROPERTIES
    IMPORTED_LOCATION "${DTILE_ZLIB_STATIC}" IMPORTED_LOCATION_RELEASE "${DTILE_ZLIB_STATIC}")
  set_target_properties(zstd::libzstd_shared PROPERTIES IMPORTED_LOCATION "${DTILE_ZSTD_STATIC}")
endif()
message(STATUS "LLVM ${LLVM_PACKAGE_VERSION} in ${LLVM_DIR}")

find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_package(LLD 22.1 CONFIG HINTS /usr/lib/llvm-22/lib/cmake/lld)

# Expat reads XML. It is small, and linked into dtilec.
find_path(DTILE_EXPAT_INCLUDE expat.h REQUIRED)
find_library(DTILE_EXPAT_LIBRARY NAMES libexpat.a expat REQUIRED)
add_library(dtile_expat INTERFACE)
target_include_directories(dtile_expat SYSTEM INTERFACE "${DTILE_EXPAT_INCLUDE}")
target_link_libraries(dtile_expat INTERFACE "${DTILE_EXPAT_LIBRARY}")

# Boost's static libraries are built with -fPIC and are 10 kB here: nothing to carry around.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 REQUIRED COMPONENTS context)

# ANTLR: the tool is a Java program, the runtime a C++ library. The package's own CMake file names
# include directories which Debian does not install, so the runtime is found by hand.
find_program(DTILE_ANTLR4 NAMES antlr4 REQUIRED)
find_path(DTILE_ANTLR4_INCLUDE antlr4-runtime.h PATH_SUFFIXES antlr4-runtime REQUIRED)
find_library(DTILE_ANTLR4_LIBRARY NAMES libantlr4-runtime.a antlr4-runtime REQUIRED)
add_library(dtile_antlr4_runtime INTERFACE)
target_include_directories(dtile_antlr4_runtime SYSTEM INTERFACE "${DTILE_ANTLR4_INCLUDE}")
target_link_libraries(dtile_antlr4_runtime INTERFACE "${DTILE_ANTLR4_LIBRARY}" Threads::Threads)

# OpenSHMEM is optional. Its wrapper oshcc insists on gcc, so header and library are found directly;
# dtile_openshmem exists where both are there.
find_path(DTILE_SHMEM_INCLUDE shmem.h
  PATHS "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include")
find_library(DTILE_SHMEM_LIBRARY oshmem PATHS "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/lib")
if(DTILE_SHMEM_INCLUDE AND DTILE_SHMEM_LIBRARY)
  add_library(dtile_openshmem INTERFACE)
  target_include_directories(dtile_openshmem SYSTEM INTERFACE "${DTILE_SHMEM_INCLUDE}")
  target_link_libraries(dtile_openshmem INTERFACE "${DTILE_SHMEM_LIBRARY}")
endif()

if(DTILE_BUILD_TESTS)
  find_package(GTest REQUIRED CONFIG)
  include(GoogleTest)
endif()
